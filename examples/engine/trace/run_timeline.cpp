#include "engine/trace/run_timeline.hpp"

#include <algorithm>
#include <utility>

namespace kvpage::engine {

Expected<void, TraceError> RunTimeline::apply(const TraceReader& reader, const TraceLine& line) {
  const auto t_ns = reader.time_ns(line);
  if (!t_ns) return Unexpected{t_ns.error()};
  if (*t_ns > 0 && begin_ns_ < 0) begin_ns_ = *t_ns;
  now_ns_ = std::max(now_ns_, *t_ns);
  if (line.kind == "submit") return submit(reader, line);
  if (line.kind == "plan") return plan(reader, line);
  if (line.kind == "transfer") return move_blocks(reader, line);
  if (line.kind == "preempt") {
    const auto preemption = reader.preemption(line);
    if (!preemption) return Unexpected{preemption.error()};
    AnswerTrack& track = tracks_[track_of(preemption->id, preemption->answer)];
    const auto kind = static_cast<std::size_t>(preemption->kind);
    ++track.preemptions[kind];
    start(track, static_cast<AnswerState>(static_cast<std::size_t>(AnswerState::kKept) + kind));
    return {};
  }
  if (line.kind == "finish") {
    const auto end = reader.finish(line);
    if (!end) return Unexpected{end.error()};
    AnswerTrack& track = tracks_[track_of(end->id, end->answer)];
    if (track.finished_ns >= 0) return Unexpected{reader.error(line, "the answer \"" + end->id + "\" ended before")};
    stop(track, now_ns_);
    track.finished_ns = now_ns_;
    track.reason = end->reason;
    track.output_tokens = std::ssize(end->output_ids);
    return {};
  }
  if (line.kind == "event") return {};
  const auto events = reader.events(line);
  if (!events) return Unexpected{events.error()};
  for (const CacheEvent& event : *events) {
    if (const auto done = step_event(reader, line, event); !done) return done;
  }
  return {};
}

void RunTimeline::close() {
  for (AnswerTrack& track : tracks_) stop(track, now_ns_);
  for (RunStep& step : steps_) {
    if (step.end_ns < 0) step.end_ns = now_ns_;
  }
  flying_.clear();
  if (steps_.empty()) return;
  steps_.back().demoted_blocks += std::exchange(moved_.demoted_blocks, 0);
  steps_.back().promoted_blocks += std::exchange(moved_.promoted_blocks, 0);
}

std::size_t RunTimeline::track_of(const std::string& id, std::uint32_t answer) {
  const auto [known, added] = by_name_.try_emplace(std::to_string(answer) + ' ' + id, tracks_.size());
  if (added) tracks_.push_back({.id = id, .answer = answer});
  if (added && answer != 0) tracks_.back().prompt_tokens = tracks_[track_of(id, 0)].prompt_tokens;
  return known->second;
}

Expected<void, TraceError> RunTimeline::submit(const TraceReader& reader, const TraceLine& line) {
  const auto request = reader.request(line);
  if (!request) return Unexpected{request.error()};
  AnswerTrack& track = tracks_[track_of(request->id, 0)];
  if (track.submitted_ns >= 0) return Unexpected{reader.error(line, "the request \"" + request->id + "\" was submitted before")};
  track.submitted_ns = now_ns_;
  track.prompt_tokens = std::ssize(request->prompt_ids);
  start(track, AnswerState::kWaiting);
  return {};
}

Expected<void, TraceError> RunTimeline::plan(const TraceReader& reader, const TraceLine& line) {
  const auto told = reader.plan(line);
  if (!told) return Unexpected{told.error()};
  std::vector<Row> rows;
  for (const PlannedRow& planned : told->rows) {
    const std::size_t t = track_of(planned.id, planned.answer);
    Row row{t, planned.first_position, planned.num_tokens, planned.cached_tokens};
    if (by_sequence_.try_emplace(planned.seq.generation, t).second) {
      tracks_[t].sequences.push_back(planned.seq.generation);
      // Traces that say nothing of admissions: what a new sequence need not compute was cached.
      if (row.cached_tokens < 0 && planned.answer == 0) row.cached_tokens = planned.first_position;
    }
    rows.push_back(row);
  }
  if (!told->step) {
    planned_ = std::move(rows);
    return {};
  }
  for (Flying& flying : flying_) {
    if (steps_[flying.step].id != *told->step) continue;
    assign(flying, std::move(rows));
    return {};
  }
  return Unexpected{reader.error(line, "step " + std::to_string(told->step->value) + " is planned, which is not in flight")};
}

Expected<void, TraceError> RunTimeline::move_blocks(const TraceReader& reader, const TraceLine& line) {
  const auto told = reader.transfer(line);
  if (!told) return Unexpected{told.error()};
  std::int64_t& demoted = flying_.empty() ? moved_.demoted_blocks : steps_[flying_.back().step].demoted_blocks;
  std::int64_t& promoted = flying_.empty() ? moved_.promoted_blocks : steps_[flying_.back().step].promoted_blocks;
  demoted += told->demoted_blocks, promoted += told->promoted_blocks;
  if (told->id.empty()) return {};
  AnswerTrack& track = tracks_[track_of(told->id, told->answer)];
  track.promoted_blocks += told->promoted_blocks;
  if (told->demoted_blocks == 0) start(track, AnswerState::kLoading);
  return {};
}

Expected<void, TraceError> RunTimeline::step_event(const TraceReader& reader, const TraceLine& line, const CacheEvent& event) {
  const std::string name = "step " + std::to_string(event.step.value);
  if (event.kind == CacheEventKind::kSeal) {
    if (!steps_.empty() && event.step <= steps_.back().id) return Unexpected{reader.error(line, name + " is sealed behind a newer one")};
    seal(event.step);
  } else if (event.kind == CacheEventKind::kCommit) {
    if (flying_.empty() || steps_[flying_.front().step].id != event.step) {
      return Unexpected{reader.error(line, name + " is committed, which is not the oldest in flight")};
    }
    end_step(std::move(flying_.front()), false);
    flying_.pop_front();
  } else if (event.kind == CacheEventKind::kAbort) {
    if (flying_.empty() || steps_[flying_.back().step].id != event.step) {
      return Unexpected{reader.error(line, name + " is aborted, which is not the newest in flight")};
    }
    end_step(std::move(flying_.back()), true);
    flying_.pop_back();
  }
  return {};
}

void RunTimeline::seal(StepId id) {
  flying_.push_back({steps_.size()});
  steps_.push_back({.id = id, .begin_ns = now_ns_});
  steps_.back().demoted_blocks = std::exchange(moved_.demoted_blocks, 0);
  steps_.back().promoted_blocks = std::exchange(moved_.promoted_blocks, 0);
  assign(flying_.back(), std::exchange(planned_, {}));
}

void RunTimeline::assign(Flying& flying, std::vector<Row>&& rows) {
  RunStep& step = steps_[flying.step];
  step.num_seqs = std::ssize(rows);
  step.num_tokens = 0;
  for (const Row& row : rows) step.num_tokens += row.num_tokens;
  flying.rows = std::move(rows);
}

void RunTimeline::end_step(Flying&& flying, bool aborted) {
  RunStep& step = steps_[flying.step];
  step.end_ns = now_ns_;
  step.aborted = aborted;
  if (aborted) return;
  for (const Row& row : flying.rows) compute(row, flying.step);
}

void RunTimeline::compute(const Row& row, std::size_t s) {
  AnswerTrack& track = tracks_[row.track];
  const RunStep& step = steps_[s];
  const auto index = static_cast<std::int64_t>(s);
  const bool again = row.first_position < track.computed_end;
  const bool decodes = row.num_tokens == 1 && row.first_position > 0 && row.first_position >= track.prompt_tokens;
  const AnswerState state = again ? AnswerState::kRecompute : decodes ? AnswerState::kDecode : AnswerState::kPrefill;
  stop(track, step.begin_ns);
  track.cached_tokens += std::max<std::int64_t>(0, row.cached_tokens);
  track.computed_end = std::max(track.computed_end, row.first_position + row.num_tokens);
  AnswerSpan* last = track.spans.empty() ? nullptr : &track.spans.back();
  if (state == AnswerState::kDecode && last != nullptr && last->state == state && last->first_step + last->num_steps == index) {
    last->end_ns = step.end_ns;
    ++last->num_steps, ++last->num_tokens;
    return;
  }
  const std::int64_t begin_ns = last == nullptr ? step.begin_ns : std::max(step.begin_ns, last->end_ns);
  track.spans.push_back({state, begin_ns, step.end_ns, index, 1, row.first_position, row.num_tokens});
}

/// A wait begins now, or goes on.
void RunTimeline::start(AnswerTrack& track, AnswerState state) {
  if (!track.spans.empty() && track.spans.back().end_ns < 0 && track.spans.back().state == state) return;
  stop(track, now_ns_);
  track.spans.push_back({.state = state, .begin_ns = now_ns_, .first_step = std::ssize(steps_)});
}

/// The wait that goes on, if one does, ends.
void RunTimeline::stop(AnswerTrack& track, std::int64_t end_ns) {
  if (track.spans.empty() || track.spans.back().end_ns >= 0) return;
  track.spans.back().end_ns = std::max(end_ns, track.spans.back().begin_ns);
}

}  // namespace kvpage::engine
