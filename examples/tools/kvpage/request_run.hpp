/// \file RequestRun: requests that arrive at their times, through an engine, until all have ended.
#pragma once

#include "tools/kvpage/cli_engine.hpp"
#include "tools/kvpage/progress_bar.hpp"
#include "tools/kvpage/request_file.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

namespace kvpage::cli {

/// What became of a request. Neither a refusal nor a result: it was not run.
struct RequestOutcome {
  const TimedRequest* request = nullptr;
  std::int64_t arrival_ns = 0;  ///< when it was due, on the engine's clock; the engine may have been busy with a step then
  std::optional<Refusal> refusal;
  std::optional<engine::GenerationResult> result;
};

/// What one step did.
struct StepRecord {
  std::int64_t num_tokens = 0;
  std::int64_t num_seqs = 0;
  std::int64_t used_blocks = 0;  ///< when it was over
  std::int64_t duration_ns = 0;
};

/// A whole run.
struct RunRecord {
  std::vector<RequestOutcome> outcomes;  ///< in the order of the requests
  std::vector<StepRecord> steps;
  std::int64_t cascade_tokens = 0;       ///< key positions that were read once for several sequences, see engine::StepStats
  double wall_s = 0;                     ///< from the start to the end of the last request
  bool interrupted = false;
};

/// Requires: everything that it is given outlives it. Threads: one owner.
class RequestRun {
 public:
  /// `progress` null: nothing is shown. `interrupted` is asked between steps.
  RequestRun(CliEngine& engine, engine::SystemEnv& env, ProgressBar* progress, std::function<bool()> interrupted)
      : engine_(engine), env_(env), progress_(progress), interrupted_(std::move(interrupted)) {}

  /// Submits each request when it is due, in the order of arrival. An interrupt cancels what is in flight and leaves out what is to come.
  /// Errors: Failure with kExitRun when the model fails again and again.
  RunRecord run(const std::vector<TimedRequest>& requests);

 private:
  void submit_due(std::int64_t now_ns);
  void submit(std::size_t index);
  void wait_for_arrival() const;
  void step();
  void cancel_all();
  void show() const;

  CliEngine& engine_;
  engine::SystemEnv& env_;
  ProgressBar* progress_;
  std::function<bool()> interrupted_;

  RunRecord record_;
  std::vector<std::size_t> by_arrival_;  // indices
  std::size_t next_ = 0;                 // into by_arrival_
  std::int64_t start_ns_ = 0;
  std::int64_t output_tokens_ = 0;
  std::int64_t num_ended_ = 0;
  std::unordered_map<std::uint64_t, std::size_t> in_flight_;  // by request id
};

}  // namespace kvpage::cli
