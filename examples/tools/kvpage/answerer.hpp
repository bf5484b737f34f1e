/// \file Answerer: one model in conversation, and how its answers are shown.
#pragma once

#include "tools/kvpage/cli_engine.hpp"
#include "tools/kvpage/loaded_model.hpp"
#include "tools/kvpage/options.hpp"

#include <span>
#include <string>

namespace kvpage::cli {

class InterruptScope;

/// The request that the options ask for, without a prompt.
engine::GenerationRequest request_of(const RunOptions& options);

/// Answers prompts through an engine, one at a time. What an earlier one left in the prefix cache is not computed again.
/// Requires: options and model outlive it.
class Answerer {
 public:
  /// Draws a seed and shows it, if one is needed.
  Answerer(const RunOptions& options, LoadedModel& model);

  /// Prints the answer to `ids`, the whole text so far: as it comes, or all answers at their end if there are several. Returns the text
  /// of the best one. Errors: Failure when the engine refuses the prompt or the model cannot answer it.
  std::string answer(std::span<const TokenId> ids);

 private:
  engine::GenerationResult generate(const engine::GenerationRequest& request);
  Ticket submit(const engine::GenerationRequest& request);
  engine::StepOutput step(const InterruptScope& interrupt, RequestId id);
  void show_prefill(const BatchPlan& plan, std::int64_t prompt_tokens);
  void print_answers(const engine::GenerationResult& result) const;
  void print_logprobs(const engine::Answer& answer) const;
  void print_timings(const engine::GenerationResult& result) const;

  const RunOptions& options_;
  LoadedModel& m_;
  engine::SystemEnv env_;
  engine::GenerationRequest template_;  // all but the prompt
  CliEngine engine_;
};

}  // namespace kvpage::cli
