/// \file EngineFixture: the engine on a TableModel, and everything that its clients see.
#pragma once

#include "answer_sampler/table_model.hpp"
#include "engine/sampling/generation_request.hpp"
#include "engine/sampling/step_output.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "support/catch.hpp"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kvpage_test {

using kvpage::FinishReason;
using kvpage::RequestId;
using kvpage::TokenId;
using kvpage::engine::Answer;
using kvpage::engine::GenerationRequest;
using Ids = std::vector<TokenId>;

/// What a stream has shown of one answer.
struct Stream {
  Ids ids{};
  std::string text{};
  std::vector<kvpage::engine::TokenLogprobs> logprobs{};
};

/// One compilation of the engine serves all tests.
class EngineFixture {
 public:
  EngineFixture(const TableModelConfig& config, LogitsOf logits_of, Ids end_tokens = {},
                const kvpage::engine::Tokenizer* tokenizer = nullptr);
  ~EngineFixture();

  RequestId submit(const GenerationRequest& request);
  /// The refusal of a request that must be refused.
  kvpage::Refusal refusal(const GenerationRequest& request);
  void step();
  /// Steps until nothing is in flight.
  void run();
  bool cancel(RequestId id);
  std::int64_t preempt(RequestId id);
  void on_plan(std::function<void(const kvpage::BatchPlan&)> observer);
  std::int64_t num_requests() const;
  std::int64_t num_preemptions() const;

  /// Of a finished request.
  const std::vector<Answer>& answers(RequestId id) const { return results.at(id.value).answers; }
  const Answer& answer(RequestId id, std::size_t index = 0) const { return answers(id).at(index); }
  const Stream& stream(RequestId id, std::uint32_t index = 0) { return streams[{id.value, index}]; }
  /// Runs one request to its end.
  const std::vector<Answer>& generate(const GenerationRequest& request);

  TableModel model;
  std::map<std::pair<std::uint64_t, std::uint32_t>, Stream> streams;
  std::map<std::uint64_t, kvpage::engine::GenerationResult> results;
  kvpage::Status last_status;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvpage_test
