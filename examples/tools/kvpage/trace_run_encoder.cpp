#include "tools/kvpage/trace_run_encoder.hpp"

#include "tools/kvpage/trace_numbers.hpp"

#include <algorithm>
#include <initializer_list>

namespace kvpage::cli {
namespace {

class RunEncoder {
 public:
  explicit RunEncoder(std::int64_t begin_ns) : begin_ns_(begin_ns) {}

  void add(const std::vector<engine::RunStep>& steps) {
    numbers({std::ssize(steps)});
    std::int64_t id = 0, begin_us = 0;
    for (const engine::RunStep& step : steps) {
      const auto this_id = static_cast<std::int64_t>(step.id.value);
      const bool moves = step.demoted_blocks + step.promoted_blocks > 0;
      numbers({this_id - id, us(step.begin_ns) - begin_us, us(step.end_ns) - us(step.begin_ns), step.num_tokens, step.num_seqs,
               (step.aborted ? 1 : 0) + (moves ? 2 : 0)});
      if (moves) numbers({step.demoted_blocks, step.promoted_blocks});
      id = this_id, begin_us = us(step.begin_ns);
    }
  }
  void add(const std::vector<engine::AnswerTrack>& tracks) {
    numbers({std::ssize(tracks)});
    for (const engine::AnswerTrack& track : tracks) add(track);
  }

  std::string bytes;

 private:
  std::int64_t us(std::int64_t t_ns) const { return (std::max(t_ns, begin_ns_) - begin_ns_) / 1000; }
  void numbers(std::initializer_list<std::int64_t> values) {
    for (const std::int64_t value : values) append_number(bytes, static_cast<std::uint64_t>(value));
  }

  void add(const engine::AnswerTrack& track) {
    numbers({track.prompt_tokens, track.output_tokens, track.cached_tokens, track.promoted_blocks, track.preemptions[0],
             track.preemptions[1], track.preemptions[2], track.submitted_ns < 0 ? 0 : us(track.submitted_ns) + 1,
             track.finished_ns < 0 ? 0 : us(track.finished_ns) + 1, std::ssize(track.sequences)});
    for (const std::uint32_t generation : track.sequences) numbers({generation});
    numbers({std::ssize(track.spans)});
    std::int64_t end_us = 0, end_step = 0;
    for (const engine::AnswerSpan& span : track.spans) {
      numbers({static_cast<std::int64_t>(span.state), us(span.begin_ns) - end_us, us(span.end_ns) - us(span.begin_ns)});
      end_us = us(span.end_ns);
      if (!engine::computes(span.state)) continue;
      numbers({span.first_step - end_step, span.num_steps, span.num_tokens, span.first_position});
      end_step = span.first_step + span.num_steps;
    }
  }

  std::int64_t begin_ns_;
};

}  // namespace

std::string encode_run(const engine::RunTimeline& run) {
  RunEncoder encoder{run.begin_ns()};
  encoder.add(run.steps());
  encoder.add(run.tracks());
  return std::move(encoder.bytes);
}

}  // namespace kvpage::cli
