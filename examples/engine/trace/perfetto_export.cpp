#include "engine/trace/perfetto_export.hpp"

#include <algorithm>
#include <ostream>
#include <utility>

namespace kvpage::engine {
namespace {

using nlohmann::ordered_json;

constexpr int kEnginePid = 1, kRequestsPid = 2;

/// Writes events one by one.
class EventWriter {
 public:
  EventWriter(std::ostream& out, std::int64_t begin_ns) : out_(out), begin_ns_(begin_ns) {
    out_ << R"({"displayTimeUnit":"ms","traceEvents":[)";
  }
  void end() { out_ << "\n]}\n"; }

  /// The name of a process (tid 0) or of one of its tracks, which are shown in the order of their numbers.
  void name(int pid, std::size_t tid, const std::string& name) {
    const char* what = tid == 0 ? "process" : "thread";
    begin('M', std::string(what) + "_name", pid, tid);
    end_event({{"name", name}});
    begin('M', std::string(what) + "_sort_index", pid, tid);
    end_event({{"sort_index", tid == 0 ? static_cast<std::size_t>(pid) : tid}});
  }
  void slice(int pid, std::size_t tid, const std::string& name, std::int64_t begin_ns, std::int64_t end_ns, const ordered_json& args) {
    begin('X', name, pid, tid);
    out_ << ",\"ts\":" << us(begin_ns - begin_ns_) << ",\"dur\":" << us(end_ns - begin_ns);
    end_event(args);
  }
  void instant(int pid, std::size_t tid, const std::string& name, std::int64_t t_ns, const ordered_json& args) {
    begin('i', name, pid, tid);
    out_ << ",\"ts\":" << us(t_ns - begin_ns_) << ",\"s\":\"t\"";
    end_event(args);
  }
  void counter(const std::string& name, std::int64_t t_ns, const ordered_json& values) {
    begin('C', name, kEnginePid, 0);
    out_ << ",\"ts\":" << us(t_ns - begin_ns_);
    end_event(values);
  }

 private:
  static std::string text(const ordered_json& value) { return value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace); }
  static std::string us(std::int64_t ns) {
    const std::string digits = std::to_string(ns % 1000 + 1000);
    return std::to_string(ns / 1000) + "." + digits.substr(1);
  }
  void begin(char phase, const std::string& name, int pid, std::size_t tid) {
    out_ << (std::exchange(first_, false) ? "\n" : ",\n") << R"({"ph":")" << phase << R"(","name":)" << text(name) << ",\"pid\":" << pid
         << ",\"tid\":" << tid;
  }
  void end_event(const ordered_json& args) { out_ << ",\"args\":" << text(args) << "}"; }

  std::ostream& out_;
  std::int64_t begin_ns_;
  bool first_ = true;
};

void write_steps(EventWriter& to, const std::vector<RunStep>& steps) {
  std::vector<std::int64_t> free_from;  // per track; steps in flight together have tracks of their own, as slices do not overlap
  for (const RunStep& step : steps) {
    const auto fits = [&](std::int64_t end_ns) { return end_ns <= step.begin_ns; };
    const auto lane = static_cast<std::size_t>(std::find_if(free_from.begin(), free_from.end(), fits) - free_from.begin());
    if (lane == free_from.size()) free_from.push_back(0), to.name(kEnginePid, lane + 1, "steps");
    free_from[lane] = step.end_ns;
    const ordered_json args{{"id", step.id.value}, {"sequences", step.num_seqs}, {"rows", step.num_tokens}};
    to.slice(kEnginePid, lane + 1, step.aborted ? "aborted step" : "step", step.begin_ns, step.end_ns, args);
    to.counter("rows", step.begin_ns, {{"rows", step.aborted ? 0 : step.num_tokens}});
    to.counter("sequences", step.begin_ns, {{"sequences", step.num_seqs}});
    if (step.demoted_blocks > 0) to.instant(kEnginePid, lane + 1, "demote", step.begin_ns, {{"blocks", step.demoted_blocks}});
    if (step.promoted_blocks > 0) to.instant(kEnginePid, lane + 1, "promote", step.begin_ns, {{"blocks", step.promoted_blocks}});
  }
}

void write_blocks(EventWriter& to, const RecordedRun& run) {
  for (const BlockCounts& c : run.block_counts) {
    to.counter("blocks", c.t_ns, {{"used", c.of(MappedState::kUsed)}, {"pending", c.of(MappedState::kPending)},
                                  {"cached", c.of(MappedState::kCached)}, {"free", c.of(MappedState::kClean)}});
  }
  for (const BlockChanges& c : run.block_changes) {
    if (c.evicted > 0) to.instant(kEnginePid, 1, "evict", c.t_ns, {{"blocks", c.evicted}});
    if (c.copies > 0) to.instant(kEnginePid, 1, "copy", c.t_ns, {{"blocks", c.copies}, {"tokens", c.copied_tokens}});
  }
}

void write_track(EventWriter& to, std::size_t tid, const AnswerTrack& track) {
  to.name(kRequestsPid, tid, track.id + (track.answer == 0 ? "" : " #" + std::to_string(track.answer)));
  for (const AnswerSpan& span : track.spans) {
    const std::string state{name_of(span.state)};
    if (span.state >= AnswerState::kKept) to.instant(kRequestsPid, tid, "preempt", span.begin_ns, {{"how", state}});
    ordered_json args = ordered_json::object();
    if (computes(span.state)) args = {{"rows", span.num_tokens}, {"steps", span.num_steps}, {"position", span.first_position}};
    to.slice(kRequestsPid, tid, state, span.begin_ns, span.end_ns, args);
  }
  if (track.finished_ns < 0) return;
  to.instant(kRequestsPid, tid, "finish: " + track.reason, track.finished_ns,
             {{"prompt_tokens", track.prompt_tokens}, {"cached_tokens", track.cached_tokens}, {"output_tokens", track.output_tokens}});
}

}  // namespace

void write_perfetto(const RecordedRun& run, std::ostream& out) {
  EventWriter to{out, run.timeline.begin_ns()};
  to.name(kEnginePid, 0, "engine");
  write_steps(to, run.timeline.steps());
  write_blocks(to, run);
  to.name(kRequestsPid, 0, "requests");
  for (std::size_t t = 0; t < run.timeline.tracks().size(); ++t) write_track(to, t + 1, run.timeline.tracks()[t]);
  to.end();
}

}  // namespace kvpage::engine
