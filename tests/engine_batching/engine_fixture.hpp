/// \file An engine on a tiny model with a clock that a test sets, and its requests.
#pragma once

#include "engine/engine.hpp"
#include "engine/tiny_models.hpp"
#include "engine_batching/hooked_model.hpp"

#include <map>
#include <string>
#include <vector>

namespace kvpage_test {

/// Time passes when a test says so.
class TestEnv {
 public:
  std::int64_t time_ns = 1;

  std::int64_t now_ns() const { return time_ns; }
  std::uint64_t draw_seed() { return ++seeds_; }
  std::pmr::memory_resource* memory() const { return std::pmr::new_delete_resource(); }

 private:
  std::uint64_t seeds_ = 100;
};

using TestEngine = kvpage::engine::Engine<kvpage::NamedPolicies, TestEnv>;

/// Small steps, so that prompts come in chunks.
inline kvpage::engine::EngineConfig small_steps(std::int64_t max_seqs = 4, std::int64_t budget_tokens = 24) {
  kvpage::engine::EngineConfig config;
  config.limits.max_seqs = max_seqs;
  config.limits.budget_tokens = budget_tokens;
  return config;
}

/// A greedy request that ends after max_tokens.
inline kvpage::engine::GenerationRequest ask(std::vector<TokenId> prompt, std::int64_t max_tokens = 8) {
  kvpage::engine::GenerationRequest request;
  request.prompt_ids = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  request.ignore_eos = true;
  request.num_logprobs = 0;
  return request;
}

/// Bits of a first answer: its tokens and their log-probabilities.
struct Bits {
  std::vector<TokenId> ids;
  std::vector<float> logprobs;
  bool operator==(const Bits&) const = default;

  static Bits of(const kvpage::engine::GenerationResult& result) {
    Bits bits{result.answers.front().ids, {}};
    for (const auto& token : result.answers.front().logprobs) bits.logprobs.push_back(token.chosen.logprob);
    return bits;
  }
};

/// Results by request, from the steps that were run.
class Results {
 public:
  void take(const kvpage::engine::StepOutput& output) {
    for (const auto& result : output.finished) results_[result.request.value] = result;
  }
  bool has(kvpage::RequestId id) const { return results_.count(id.value) > 0; }
  const kvpage::engine::GenerationResult& of(kvpage::RequestId id) const {
    INFO("request " << id.value);
    REQUIRE(has(id));
    return results_.at(id.value);
  }
  std::size_t size() const { return results_.size(); }

 private:
  std::map<std::uint64_t, kvpage::engine::GenerationResult> results_;
};

/// Runs until nothing is in flight. Fails the test when a step fails.
template <class Engine>
Results run_all(Engine& engine) {
  Results results;
  while (engine.num_requests() > 0) {
    const auto& output = engine.step();
    if (!output.status.ok()) FAIL(output.status.message());
    results.take(output);
  }
  return results;
}

/// What a request gets from an engine that has nothing else to do and an empty cache.
inline Bits alone(kvpage::engine::LanguageModel& model, const kvpage::engine::GenerationRequest& request) {
  TestEnv env;
  TestEngine engine(model, {}, {}, env, {}, nullptr);
  const auto ticket = engine.submit(request);
  REQUIRE(ticket);
  const Results results = run_all(engine);
  return Bits::of(results.of(ticket->id));
}

}  // namespace kvpage_test
