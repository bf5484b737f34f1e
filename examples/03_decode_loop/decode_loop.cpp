/// \file An engine in one page: a prefix cache, a scheduler and a model, and the loop that joins them. Headers only.
///
/// Two requests share the start of their prompts. The second one comes while the first is being answered: what they share is in the
/// cache by then and is not computed again. A second engine answers both without a cache: the tokens must be the same.
#include "03_decode_loop/toy_transformer.hpp"

#include <kvpage/cache/block_allocator.hpp>
#include <kvpage/sched/continuous_scheduler.hpp>
#include <kvpage/sched/system_env.hpp>

#include <cstdio>
#include <map>

namespace my_engine {

struct Answer {
  std::vector<kvpage::TokenId> tokens;
  std::int64_t cached_tokens = 0;  ///< of its prompt
};

/// The shipped environment (clock, seeds, memory), and what this program does with new tokens.
struct Env : kvpage::SystemEnv {
  std::map<std::uint64_t, Answer> answers;  // by request

  void on_event(const kvpage::RequestEvent& event) {
    Answer& answer = answers[event.request.value];
    if (event.has_token) answer.tokens.push_back(event.token);
    answer.cached_tokens = event.cached_tokens;
  }
};

class Engine {
 public:
  explicit Engine(bool share_prefixes)
      : model_(kNumBlocks), cache_({.num_blocks = kNumBlocks, .block_size = ToyTransformer::kBlockSize, .max_seqs = 4}),
        scheduler_({.budget_tokens = 32, .max_seqs = 4, .share_prefixes = share_prefixes}, cache_, {}, env_) {}

  void submit(std::uint64_t id, const std::vector<kvpage::TokenId>& prompt) {
    const auto ticket = scheduler_.submit({.id = kvpage::RequestId{id}, .prompt = prompt, .max_new_tokens = 12});
    if (!ticket) throw std::runtime_error(kvpage::describe(ticket.error()));
  }

  /// One step for everybody who is in flight; false when nobody is.
  bool step() {
    if (scheduler_.num_requests() == 0) return false;
    const kvpage::BatchPlan& plan = scheduler_.plan();  // who runs, which tokens, in which pages
    scheduler_.seal().value();
    const Rows logits = model_.forward(plan);
    std::vector<kvpage::SampleResult> drawn;
    for (const kvpage::PlannedSample& sample : plan.samples) {
      const auto row = logits.values.begin() + sample.logit_index * logits.width;
      const auto best = std::max_element(row, row + logits.width);  // greedy; kernels/sample draws
      drawn.push_back({.token = static_cast<kvpage::TokenId>(best - row)});
    }
    scheduler_.commit(drawn);  // tokens arrive in on_event; full pages become findable
    return true;
  }

  const Answer& answer(std::uint64_t id) const { return env_.answers.at(id); }

 private:
  using Cache = kvpage::BlockAllocator<>;  // a prefix cache, LRU
  static constexpr std::int64_t kNumBlocks = 16;
  ToyTransformer model_;
  Cache cache_;
  Env env_;
  kvpage::ContinuousScheduler<Cache, kvpage::SchedulerPolicies<>, Env> scheduler_;
};

/// 40 tokens that all prompts start with, and 4 of this one's own.
std::vector<kvpage::TokenId> prompt(kvpage::TokenId own) {
  std::vector<kvpage::TokenId> tokens;
  for (kvpage::TokenId i = 0; i < 44; ++i) tokens.push_back((i < 40 ? i * 7 : own + i) % ToyTransformer::kVocab);
  return tokens;
}

}  // namespace my_engine

int main() {
  using my_engine::Engine, my_engine::prompt;
  Engine cached(true), computed(false);
  for (Engine* engine : {&cached, &computed}) {
    engine->submit(1, prompt(5));
    for (int i = 0; i < 8; ++i) engine->step();
    engine->submit(2, prompt(9));
    while (engine->step()) continue;
  }
  bool same = computed.answer(2).cached_tokens == 0;
  for (const unsigned id : {1u, 2u}) {
    const auto& [tokens, cached_tokens] = cached.answer(id);
    std::printf("request %u (%lld of its prompt cached):", id, static_cast<long long>(cached_tokens));
    for (const kvpage::TokenId token : tokens) std::printf(" %u", token);
    same = same && tokens == computed.answer(id).tokens;
    std::printf("\n");
  }
  std::printf("without a cache: %s\n", same ? "the same tokens" : "OTHER TOKENS");
  return same ? 0 : 1;
}
