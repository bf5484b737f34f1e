/// \file An engine with texts on a tiny model, and requests that it runs whatever memory fails meanwhile.
#pragma once

#include "engine/tokenizer_from_gguf.hpp"
#include "engine_batching/engine_fixture.hpp"
#include "support/allocation_count.hpp"

#include <new>
#include <optional>

namespace kvpage_test {

/// A tiny model with its tokenizer.
struct TextModel {
  explicit TextModel(const TinyModel& shape, const kvpage::engine::ModelConfig& config)
      : file(shape), tokenizer(kvpage::engine::read_tokenizer(file.gguf()).value()), model(file.load(config)) {}

  TinyFile file;
  kvpage::engine::Tokenizer tokenizer;
  std::unique_ptr<kvpage::engine::LanguageModel> model;
};

/// Requests whose steps chunk, share, fork, stop, rank and, in a small pool, preempt.
inline std::vector<kvpage::engine::GenerationRequest> hard_requests() {
  std::vector<kvpage::engine::GenerationRequest> requests(4, ask(some_ids(37, 5), 5));
  requests[0].num_logprobs = 2;
  requests[1].n = 2, requests[1].seed = 8, requests[1].sampling.temperature = 1;
  requests[1].stop_strings = {"e", "\x80"};
  requests[2].beam_width = 2, requests[2].n = 2;
  requests[3].prompt_ids = some_ids(60, 6);
  return requests;
}

/// All answers of the requests, with their texts.
struct Told {
  std::vector<std::vector<TokenId>> ids;
  std::vector<std::string> texts;
  std::vector<std::string> shown;  ///< by request, what streamed of its first answer
  bool operator==(const Told&) const = default;
};

/// An engine on `text` that runs the hard requests, whatever memory fails meanwhile.
class Run {
 public:
  explicit Run(const TextModel& text, std::int64_t tier_bytes) {
    kvpage::engine::EngineConfig config = small_steps(3, 24);
    config.cache.host_tier_bytes = tier_bytes;
    config.limits.max_aborts = 3;
    engine_.emplace(*text.model, config, kvpage::NamedPolicies{}, env_, std::span<const TokenId>{}, &text.tokenizer);
  }

  /// What found no memory is tried again: nothing was kept of it.
  void submit(const std::vector<kvpage::engine::GenerationRequest>& requests) {
    for (const kvpage::engine::GenerationRequest& request : requests) {
      std::uint64_t id = 0;
      try {
        id = engine_->submit(request).value().id.value;
      } catch (const std::bad_alloc&) {
        ++num_failures;
        id = engine_->submit(request).value().id.value;
      }
      const OwnAllocations own;
      tickets_.push_back(id);
    }
  }

  Told finish() {
    std::map<std::uint64_t, std::string> shown;
    Results results;
    while (results.size() < tickets_.size()) {
      const kvpage::engine::StepOutput& output = engine_->step();
      const OwnAllocations own;
      num_failures += output.status.ok() ? 0 : 1;
      CHECK((output.status.ok() || output.status.code() == kvpage::StatusCode::kOutOfMemory));
      CHECK_FALSE(output.gave_up);
      for (const kvpage::engine::TokenOutput& token : output.tokens) {
        if (token.answer == 0) shown[token.request.value] += token.text;
      }
      results.take(output);
    }
    const OwnAllocations own;
    Told told;
    for (const std::uint64_t id : tickets_) {
      const kvpage::engine::GenerationResult& result = results.of(kvpage::RequestId{id});
      for (const kvpage::engine::Answer& answer : result.answers) told.ids.push_back(answer.ids), told.texts.push_back(answer.text);
      told.shown.push_back(shown[id] + (result.answers.size() > 1 ? "" : result.answers.front().tail_text));
    }
    tickets_.clear();
    return told;
  }

  void check_empty() {
    engine_->cache().allocator().check_invariants();
    CHECK(engine_->cache().allocator().capacity().used == 0);
    CHECK(engine_->num_requests() == 0);
  }

  int num_failures = 0;  ///< that somebody saw

 private:
  TestEnv env_;
  std::optional<TestEngine> engine_;
  std::vector<std::uint64_t> tickets_;
};

}  // namespace kvpage_test
