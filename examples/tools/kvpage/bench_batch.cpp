#include "tools/kvpage/cli_engine.hpp"
#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/interrupt.hpp"
#include "tools/kvpage/loaded_model.hpp"
#include "tools/kvpage/profile_report.hpp"
#include "tools/kvpage/random_ids.hpp"
#include "tools/kvpage/rates.hpp"
#include "tools/kvpage/request_run.hpp"
#include "tools/kvpage/warm_up.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <optional>

namespace kvpage::cli {
namespace {

/// All prompts of the batch, distinct while the vocabulary has enough ids.
std::vector<TimedRequest> requests_of(const BenchOptions& options, std::int64_t vocab_size, std::int64_t max_tokens) {
  std::vector<TimedRequest> requests(static_cast<std::size_t>(options.batch));
  const auto ids = random_ids(options.seed, options.batch * options.prompt_tokens, vocab_size);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    engine::GenerationRequest& request = requests[i].request;
    const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(i) * options.prompt_tokens;
    request.name = std::to_string(i);
    request.prompt_ids.assign(begin, begin + options.prompt_tokens);
    request.max_tokens = max_tokens;
    request.sampling.temperature = 0;
    request.ignore_eos = true;
  }
  return requests;
}

/// One phase of the batch. Errors: Failure when a request did not get all its tokens.
class Phase {
 public:
  Phase(CliEngine& engine, engine::SystemEnv& env, const BenchOptions& options, std::int64_t max_tokens)
      : requests_(requests_of(options, engine.model().spec().vocab_size, max_tokens)) {
    const InterruptScope interrupt;
    record_ = RequestRun(engine, env, nullptr, [&] { return interrupt.requested(); }).run(requests_);
    for (const RequestOutcome& outcome : record_.outcomes) {
      if (outcome.refusal) throw Failure(kExitDoesNotFit, describe(*outcome.refusal));
      if (record_.interrupted) throw Failure(kExitRun, "interrupted");
      const engine::Answer& answer = outcome.result->answers.front();
      if (answer.finish != FinishReason::kLength) throw Failure(kExitRun, "an answer ended before its length: " + finish_of(answer));
    }
  }

  double wall_s() const noexcept { return record_.wall_s; }
  std::int64_t num_steps() const noexcept { return std::ssize(record_.steps); }
  /// Steps in which every answer had one row. The first one also copies what it found in the cache: it does not count.
  struct Decode {
    std::int64_t steps = 0, tokens = 0;
    double time_s = 0;
  };
  Decode decode() const {
    const auto batch = std::ssize(requests_);
    Decode sum;
    for (std::size_t i = 1; i < record_.steps.size(); ++i) {
      const StepRecord& step = record_.steps[i];
      if (step.num_tokens != batch || step.num_seqs != batch) continue;
      ++sum.steps, sum.tokens += step.num_tokens, sum.time_s += static_cast<double>(step.duration_ns) * 1e-9;
    }
    return sum;
  }
  nlohmann::ordered_json output_ids() const {
    auto ids = nlohmann::ordered_json::array();
    for (const RequestOutcome& outcome : record_.outcomes) ids.push_back(outcome.result->answers.front().ids);
    return ids;
  }

 private:
  static std::string finish_of(const engine::Answer& answer) { return std::string(engine::name_of(answer.finish)); }

  std::vector<TimedRequest> requests_;
  RunRecord record_;
};

/// `answers`: of the second phase, empty without one.
void print(const BenchOptions& o, const LoadedModel& m, const Phase& prefill, const std::optional<Phase>& answers, ProfileReport* profile) {
  const std::int64_t prompt_tokens = o.batch * o.prompt_tokens;
  const Phase::Decode decode = answers ? answers->decode() : Phase::Decode{};
  if (!o.json) {
    std::printf("load     %10.3f s\n", m.load_s);
    std::printf("prefill  %10.3f s  %s tok/s  (%lld prompts of %lld tokens)\n", prefill.wall_s(),
                figure_text("%10.1f", 10, rate(prompt_tokens, prefill.wall_s())).c_str(), static_cast<long long>(o.batch),
                static_cast<long long>(o.prompt_tokens));
    if (decode.steps > 0) {
      std::printf("decode   %10.3f s  %s tok/s  (%lld steps)\n", decode.time_s,
                  figure_text("%10.1f", 10, rate(decode.tokens, decode.time_s)).c_str(), static_cast<long long>(decode.steps));
    }
    if (profile != nullptr) std::printf("%s", profile->text().c_str());
    return;
  }
  using Json = nlohmann::ordered_json;
  const std::optional<double> decode_s = decode.steps > 0 ? std::optional(decode.time_s) : std::nullopt;
  Json json{{"model", m.model->spec().name}, {"kernels", o.model.kernels}, {"isa", m.model->isa()},
                              {"kv_type", m.model->kv_type()}, {"threads", m.model->num_threads()}, {"batch", o.batch},
                              {"prompt_tokens", o.prompt_tokens}, {"generated_tokens", o.generate_tokens}, {"load_s", m.load_s},
                              {"prefill_s", prefill.wall_s()}, {"prefill_steps", prefill.num_steps()},
                              {"prefill_tokens_per_s", or_null<Json>(rate(prompt_tokens, prefill.wall_s()))},
            {"decode_s", or_null<Json>(decode_s)}, {"decode_steps", decode.steps},
            {"decode_tokens_per_s", or_null<Json>(rate(decode.tokens, decode_s.value_or(0)))}};
  if (profile != nullptr) json["profile"] = profile->json();
  json["output_ids"] = answers ? answers->output_ids() : nlohmann::ordered_json::array();
  std::printf("%s\n", json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
}

}  // namespace

// Two runs, so that no prompt is computed beside a decode step: the first one computes the prompts and one token; the second one finds
// them in the prefix cache, all but the token that gives the first logits, and has the whole batch in each step.
int bench_batch(const BenchOptions& options) {
  const std::int64_t context = options.prompt_tokens + std::max<std::int64_t>(options.generate_tokens, 1);
  const std::int64_t step_tokens = std::max(engine::kDefaultStepTokens, options.batch + 1);
  LoadedModel m = load_model_for(options.model, options.batch, context, step_tokens);
  warm_up(*m.model, options.batch * options.prompt_tokens);
  EngineOptions limits;
  limits.max_seqs = options.batch;
  limits.budget_tokens = step_tokens;
  limits.admission = "reserve-chunk";
  engine::SystemEnv env;
  CliEngine engine(*m.model, engine_config(limits, options.model, options.batch), policies_of(limits), env, m.end_tokens, &m.tokenizer);
  std::optional<ProfileReport> profile;
  if (options.profile) profile.emplace(*m.model);
  const Phase prefill(engine, env, options, 1);
  std::optional<Phase> answers;
  if (options.generate_tokens > 0) answers.emplace(engine, env, options, options.generate_tokens);
  print(options, m, prefill, answers, profile ? &*profile : nullptr);
  return kExitOk;
}

}  // namespace kvpage::cli
