// The equivalence law, exhaustively on the toy model: every chunk size x prefix hit x preemption point gives the text and the logits
// of the one-shot run.
#include "sched/sched_fixture.hpp"

#include "support/environment.hpp"

using namespace kvpage;
using namespace kvpage_test;

namespace {

constexpr std::int64_t kNewTokens = 8;
constexpr std::int64_t kBlock = 4;

Tokens prompt_of(std::int64_t length) {
  Tokens prompt;
  for (std::int64_t i = 0; i < length; ++i) prompt.push_back(static_cast<TokenId>((i * i + 3 * i + 1) % 91));
  return prompt;
}

/// Runs of one prompt length and chunk size, on one scheduler.
class EquivalenceRuns {
 public:
  EquivalenceRuns(std::int64_t length, std::int64_t chunk)
      : f_({.num_blocks = 32, .block_size = kBlock, .max_seqs = 2}, {.budget_tokens = 64, .max_seqs = 1, .max_chunk_tokens = chunk}),
        prompt_(prompt_of(length)) {
    text_ = toy_text(f_.cache.config(), {.prompt = prompt_, .max_new_tokens = kNewTokens}, 0, f_.kVocab, &logits_);
  }

  /// True when the run said what the one-shot run says, and did what it was to do.
  bool run(std::int64_t hit, std::int64_t preempt_point) {
    if (!f_.cache.reset(CacheReset::kIfIdle)) return false;
    put_prefix(hit);
    f_.env.events.clear();
    const std::uint64_t id = ++last_id_;
    if (!f_.submit(id, prompt_, kNewTokens)) return false;
    const std::int64_t preempted_before = f_.scheduler.stats().preempted_recompute;
    bool right = true;
    std::int64_t cached = -1;
    bool preempted = false;
    while (f_.scheduler.num_requests() > 0 && right) {
      right = step();
      const Request* request = f_.scheduler.find(RequestId{id});
      if (request == nullptr) break;
      if (cached < 0) cached = request->cached_tokens;
      if (!preempted && request->num_computed >= preempt_point) preempted = f_.scheduler.preempt(RequestId{id}) == 1;
    }
    const auto length = static_cast<std::int64_t>(prompt_.size());
    const bool reachable = preempt_point < length + kNewTokens - 1;
    return right && cached == hit && f_.scheduler.stats().preempted_recompute - preempted_before == (reachable ? 1 : 0) &&
           f_.text(id) == text_ && f_.cache.capacity().used == 0;
  }

 private:
  bool step() {
    f_.batch = &f_.scheduler.plan();
    if (!validate(*f_.batch, kBlock) || f_.batch->num_tokens() == 0) return false;
    f_.seal();
    f_.run_transfers();
    const auto logits = f_.toy.run(*f_.batch);
    f_.results.clear();
    for (const PlannedSample& sample : f_.batch->samples) {
      const std::uint64_t own = logits[static_cast<std::size_t>(sample.logit_index)];
      if (own != logits_[static_cast<std::size_t>(sample.position) - prompt_.size()]) return false;
      f_.results.push_back({.token = toy::draw(own, sample, f_.kVocab)});
    }
    f_.scheduler.commit(f_.results, f_.outcomes);
    return true;
  }

  /// Someone computed and published the first `count` tokens before.
  void put_prefix(std::int64_t count) {
    auto txn = f_.cache.begin();
    const SeqId seq = txn->create().value();
    txn->grow(seq, count).value();
    const StepId id = txn->seal().value();
    const BlockTable table = f_.cache.table(seq);
    for (std::int64_t p = 0; p < count; ++p) {
      f_.toy.write(table.blocks[static_cast<std::size_t>(p / kBlock)], p % kBlock,
                   toy::slot_of(prompt_[static_cast<std::size_t>(p)], p, NamespaceId{}));
    }
    f_.cache.commit(id).value();
    const auto tokens = std::span<const TokenId>{prompt_}.first(static_cast<std::size_t>(count));
    f_.cache.publish(seq, {.tokens = tokens, .partial_tail = true}).value();
    auto end = f_.cache.begin();
    end->release(seq).value();
    end->commit().value();
  }

  SchedFixture f_;
  Tokens prompt_;
  Tokens text_;
  std::vector<std::uint64_t> logits_;
  std::uint64_t last_id_ = 0;
};

/// All (chunk, hit, preemption point) of the lengths first, first + stride, ...; returns the number of runs.
std::int64_t run_lengths(std::int64_t first, std::int64_t stride, std::int64_t last) {
  std::int64_t runs = 0;
  for (std::int64_t length = first; length <= last; length += stride) {
    for (std::int64_t chunk = 1; chunk <= length; ++chunk) {
      EquivalenceRuns law{length, chunk};
      for (std::int64_t hit = 0; hit < length; ++hit) {
        for (std::int64_t point = 0; point <= length + 7; ++point, ++runs) {
          INFO("length " << length << " chunk " << chunk << " hit " << hit << " preempted at " << point);
          if (!law.run(hit, point)) FAIL("differs from the one-shot run");
        }
      }
    }
  }
  return runs;
}

}  // namespace

TEST_CASE("sched.equivalence.every_chunk_hit_and_preemption_point", "[sched]") {
#if defined(__SANITIZE_ADDRESS__)
  CHECK(run_lengths(1, 1, 10) == 5 * 5 * 11 * 11 + 8 * 385);
#else
  CHECK(run_lengths(1, 1, 40) == 849'520);
#endif
}
