/// \file RunTimeline: when the steps of a recorded run began and ended, and what every answer did meanwhile.
#pragma once

#include "engine/trace/trace_reader.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kvpage::engine {

/// One sealed step.
struct RunStep {
  StepId id{};
  std::int64_t begin_ns = 0;  ///< when it was sealed
  std::int64_t end_ns = -1;   ///< when it was committed or aborted; -1 = the trace ends before
  bool aborted = false;
  std::int64_t num_seqs = 0;    ///< with rows
  std::int64_t num_tokens = 0;  ///< rows
  std::int64_t demoted_blocks = 0;
  std::int64_t promoted_blocks = 0;
};

/// What an answer does.
enum class AnswerState : std::uint8_t {
  kWaiting,
  kLoading,    ///< waits for blocks from the host tier
  kPrefill,    ///< tokens of its prompt are computed
  kRecompute,  ///< tokens that were computed before its preemption are computed again
  kDecode,     ///< a token per step
  kKept,       ///< preempted, with its blocks
  kDemoted,    ///< preempted, its blocks in the host tier
  kDropped,    ///< preempted, without its blocks
};
inline constexpr std::array<std::string_view, 8> kAnswerStateNames{
    "waiting", "loading", "prefill", "recompute", "decode", "preempted (keep)", "preempted (demote)", "preempted (recompute)"};
constexpr std::string_view name_of(AnswerState state) { return kAnswerStateNames[static_cast<std::size_t>(state)]; }
/// True while it has rows.
constexpr bool computes(AnswerState state) { return state >= AnswerState::kPrefill && state <= AnswerState::kDecode; }

/// One state of an answer: a wait, a chunk of its prompt, or the decode rows of steps that follow each other.
struct AnswerSpan {
  AnswerState state{};
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = -1;
  std::int64_t first_step = 0;  ///< index of the step, or of the next one to come; aborted ones count
  std::int64_t num_steps = 0;   ///< 0 = a wait
  std::int64_t first_position = 0;
  std::int64_t num_tokens = 0;
};

/// One answer from its submission to its end.
struct AnswerTrack {
  std::string id;
  std::uint32_t answer = 0;
  std::int64_t prompt_tokens = 0;  ///< 0 = its submission is not in the trace
  std::int64_t submitted_ns = -1;  ///< -1 = not known; answers behind the first one begin with their first rows
  std::int64_t finished_ns = -1;   ///< -1 = the trace ends before
  std::string reason{};
  std::int64_t output_tokens = 0;
  std::int64_t cached_tokens = 0;  ///< over all admissions
  std::int64_t promoted_blocks = 0;
  std::array<std::int64_t, 3> preemptions{};  ///< by PreemptionKind
  std::vector<AnswerSpan> spans{};            ///< in order; they do not overlap
  std::vector<std::uint32_t> sequences{};     ///< generations, oldest first
  std::int64_t computed_end = 0;              ///< behind the last position that was ever computed
};

/// Follows the lines of one trace. The rows of an aborted step count for nobody. A time before that of an earlier line counts as that.
class RunTimeline {
 public:
  /// Errors: the reader's, and what the line contradicts.
  Expected<void, TraceError> apply(const TraceReader& reader, const TraceLine& line);
  /// The trace has ended: what has not is as it is until its last moment.
  void close();

  [[nodiscard]] const std::vector<RunStep>& steps() const noexcept { return steps_; }
  /// Answers in the order in which they were first named.
  [[nodiscard]] const std::vector<AnswerTrack>& tracks() const noexcept { return tracks_; }
  [[nodiscard]] std::int64_t begin_ns() const noexcept { return begin_ns_ < 0 ? 0 : begin_ns_; }
  [[nodiscard]] std::int64_t end_ns() const noexcept { return now_ns_; }

 private:
  struct Row {
    std::size_t track = 0;
    std::int64_t first_position = 0;
    std::int64_t num_tokens = 0;
    std::int64_t cached_tokens = -1;
  };
  /// A sealed step that has not ended.
  struct Flying {
    std::size_t step = 0;
    std::vector<Row> rows{};
  };

  std::size_t track_of(const std::string& id, std::uint32_t answer);
  Expected<void, TraceError> submit(const TraceReader& reader, const TraceLine& line);
  Expected<void, TraceError> plan(const TraceReader& reader, const TraceLine& line);
  Expected<void, TraceError> move_blocks(const TraceReader& reader, const TraceLine& line);
  Expected<void, TraceError> step_event(const TraceReader& reader, const TraceLine& line, const CacheEvent& event);
  void assign(Flying& flying, std::vector<Row>&& rows);
  void seal(StepId id);
  void end_step(Flying&& flying, bool aborted);
  void compute(const Row& row, std::size_t step);
  void start(AnswerTrack& track, AnswerState state);
  void stop(AnswerTrack& track, std::int64_t end_ns);

  std::vector<RunStep> steps_;
  std::vector<AnswerTrack> tracks_;
  std::unordered_map<std::string, std::size_t> by_name_;
  std::unordered_map<std::uint32_t, std::size_t> by_sequence_;
  std::vector<Row> planned_;  ///< of the step that is sealed next
  std::deque<Flying> flying_;
  TraceTransfer moved_{};  ///< before the step that is sealed next
  std::int64_t begin_ns_ = -1;
  std::int64_t now_ns_ = 0;
};

}  // namespace kvpage::engine
