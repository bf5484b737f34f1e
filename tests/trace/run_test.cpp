/// \file What a trace tells of steps and answers is what the scheduler did, and so is what it exports.
#include "cli/program.hpp"
#include "engine/trace/recorded_run.hpp"
#include "loader/temp_dir.hpp"
#include "support/catch.hpp"
#include "support/environment.hpp"
#include "tools/kvpage/trace_run_encoder.hpp"
#include "trace/scheduled_load.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <map>
#include <sstream>

using namespace kvpage;
using namespace kvpage_test;
using engine::AnswerState;

namespace {

engine::RecordedRun run_of(const std::string& path) {
  auto reader = engine::TraceReader::open(path).value();
  return engine::RecordedRun::read(reader).value();
}

/// A run of these lines behind a header, or why they are none.
Expected<engine::RecordedRun, engine::TraceError> run_of_lines(const std::string& lines) {
  const std::string header = R"({"kind":"header","version":1,"config":{"num_blocks":8,"block_size":16}})" "\n";
  auto reader = engine::TraceReader::read(std::make_unique<std::istringstream>(header + lines), "t.jsonl").value();
  return engine::RecordedRun::read(reader);
}

}  // namespace

TEST_CASE("trace.run.steps_and_answers_are_the_schedulers", "[trace]") {
  const TempDir dir;
  const ScheduledCounts counts = record_scheduled_load(dir / "run.jsonl", {});
  const engine::RecordedRun run = run_of(dir / "run.jsonl");
  std::int64_t aborted = 0, planned = 0, shown = 0, recomputed = 0, preempted = 0, output = 0, finished = 0, evicted = 0, copies = 0;
  for (const engine::RunStep& step : run.timeline.steps()) {
    aborted += step.aborted ? 1 : 0;
    planned += step.aborted ? 0 : step.num_tokens;
    CHECK(step.end_ns > step.begin_ns);
  }
  for (const engine::AnswerTrack& track : run.timeline.tracks()) {
    std::int64_t end_ns = track.submitted_ns;
    for (const engine::AnswerSpan& span : track.spans) {
      REQUIRE(span.begin_ns >= end_ns);
      REQUIRE(span.end_ns >= span.begin_ns);
      end_ns = span.end_ns;
      shown += span.num_tokens;
      recomputed += span.state == AnswerState::kRecompute ? span.num_tokens : 0;
      if (span.state == AnswerState::kDecode) REQUIRE(span.num_tokens == span.num_steps);
    }
    REQUIRE(track.finished_ns >= end_ns);
    CHECK(track.reason == "length");
    finished += track.finished_ns >= 0 ? 1 : 0;
    output += track.output_tokens;
    for (const std::int64_t times : track.preemptions) preempted += times;
  }
  for (const engine::BlockChanges& changes : run.block_changes) evicted += changes.evicted, copies += changes.copies;
  CHECK(std::ssize(run.timeline.steps()) == counts.sealed_steps);
  CHECK(aborted == counts.stats.aborted_steps);
  CHECK(planned == counts.stats.tokens);
  CHECK(shown == counts.stats.tokens);
  CHECK(preempted == counts.stats.preempted_keep + counts.stats.preempted_recompute);
  CHECK(finished == counts.answers);
  CHECK(output == counts.output_tokens);
  CHECK(evicted == counts.evictions);
  CHECK(copies == counts.stats.block_copies);
  CHECK(aborted >= 3);
  CHECK(preempted >= 3);
  CHECK(recomputed > 0);
}

TEST_CASE("trace.run.cached_tokens_are_the_schedulers", "[trace]") {
  const TempDir dir;
  const ScheduledCounts counts = record_scheduled_load(dir / "run.jsonl", {.abort_every = 1'000'000});
  std::int64_t cached = 0;
  const engine::RecordedRun run = run_of(dir / "run.jsonl");
  for (const engine::AnswerTrack& track : run.timeline.tracks()) cached += track.cached_tokens;
  CHECK(cached == counts.stats.cached_tokens);
  CHECK(cached > 500);
}

TEST_CASE("trace.run.the_page_holds_every_step_and_answer", "[trace]") {
  const TempDir dir;
  record_scheduled_load(dir / "run.jsonl", {.num_requests = 30});
  const engine::RunTimeline run = run_of(dir / "run.jsonl").timeline;
  const std::string bytes = cli::encode_run(run);
  std::size_t at = 0;
  const auto number = [&] {
    std::int64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(at++));
      value |= std::int64_t{byte & 127} << shift;
      if (byte < 128) return value;
    }
  };
  const auto us = [&](std::int64_t t_ns) { return (t_ns - run.begin_ns()) / 1000; };
  REQUIRE(number() == std::ssize(run.steps()));
  std::int64_t id = 0, begin = 0, end = 0, next = 0;
  for (const engine::RunStep& step : run.steps()) {
    REQUIRE((id += number()) == static_cast<std::int64_t>(step.id.value));
    REQUIRE((begin += number()) == us(step.begin_ns));
    REQUIRE(begin + number() == us(step.end_ns));
    REQUIRE(number() == step.num_tokens);
    REQUIRE(number() == step.num_seqs);
    REQUIRE(number() == (step.aborted ? 1 : 0));
  }
  REQUIRE(number() == std::ssize(run.tracks()));
  for (const engine::AnswerTrack& track : run.tracks()) {
    const std::int64_t head[] = {track.prompt_tokens, track.output_tokens, track.cached_tokens, track.promoted_blocks,
                                 track.preemptions[0], track.preemptions[1], track.preemptions[2],
                                 track.submitted_ns < 0 ? 0 : us(track.submitted_ns) + 1, us(track.finished_ns) + 1};
    for (const std::int64_t value : head) REQUIRE(number() == value);
    REQUIRE(number() == std::ssize(track.sequences));
    for (const std::uint32_t generation : track.sequences) REQUIRE(number() == generation);
    REQUIRE(number() == std::ssize(track.spans));
    end = next = 0;
    for (const engine::AnswerSpan& span : track.spans) {
      REQUIRE(number() == static_cast<std::int64_t>(span.state));
      REQUIRE((end += number()) == us(span.begin_ns));
      REQUIRE((end += number()) == us(span.end_ns));
      if (!engine::computes(span.state)) continue;
      REQUIRE(next + number() == span.first_step);
      REQUIRE(number() == span.num_steps);
      REQUIRE(number() == span.num_tokens);
      REQUIRE(number() == span.first_position);
      next = span.first_step + span.num_steps;
    }
  }
  CHECK(at == bytes.size());
}

TEST_CASE("trace.run.an_answer_waits_loads_computes_and_ends", "[trace]") {
  const auto run = run_of_lines(R"({"t_ns":1000,"kind":"submit","id":"a","prompt_ids":[1,2,3,4]}
{"t_ns":2000,"kind":"transfer","promoted":3,"demoted":1}
{"t_ns":2000,"kind":"transfer","id":"a"}
{"t_ns":3000,"kind":"seal","step":1}
{"t_ns":3500,"kind":"transfer","id":"a"}
{"t_ns":4000,"kind":"commit","step":1}
{"t_ns":5000,"kind":"plan","rows":[["a",1,2,2,0,2]]}
{"t_ns":5000,"kind":"seal","step":2}
{"t_ns":6000,"kind":"commit","step":2}
{"t_ns":6500,"kind":"seal","step":3}
{"t_ns":6600,"kind":"plan","step":3,"rows":[["a",1,4,1],["a",2,4,1,1]]}
{"t_ns":7000,"kind":"commit","step":3}
{"t_ns":8000,"kind":"plan","rows":[["a",1,5,1]]}
{"t_ns":8000,"kind":"seal","step":4}
{"t_ns":9000,"kind":"abort","step":4}
{"t_ns":9100,"kind":"preempt","id":"a","how":"demote"}
{"t_ns":9200,"kind":"seal","step":5}
)");
  REQUIRE(run.has_value());
  const auto& steps = run->timeline.steps();
  REQUIRE(steps.size() == 5);
  CHECK(steps[0].promoted_blocks == 3);
  CHECK(steps[0].demoted_blocks == 1);
  CHECK(steps[2].num_tokens == 2);
  CHECK(steps[3].aborted);
  CHECK(steps[4].end_ns == 9200);  // where the trace ends
  REQUIRE(run->timeline.tracks().size() == 2);
  const engine::AnswerTrack& a = run->timeline.tracks()[0];
  std::vector<std::tuple<AnswerState, std::int64_t, std::int64_t>> spans;
  for (const engine::AnswerSpan& span : a.spans) spans.emplace_back(span.state, span.begin_ns, span.end_ns);
  CHECK(spans == std::vector<std::tuple<AnswerState, std::int64_t, std::int64_t>>{{AnswerState::kWaiting, 1000, 2000},
                                                                                   {AnswerState::kLoading, 2000, 5000},
                                                                                   {AnswerState::kPrefill, 5000, 6000},
                                                                                   {AnswerState::kDecode, 6500, 7000},
                                                                                   {AnswerState::kDemoted, 9100, 9200}});
  CHECK(a.cached_tokens == 2);
  CHECK(a.finished_ns == -1);
  CHECK(run->timeline.tracks()[1].spans.front().state == AnswerState::kDecode);
}

TEST_CASE("trace.run.what_contradicts_itself_is_named_with_its_line", "[trace]") {
  const auto check = [](const std::string& lines, const std::string& place, const std::string& part) {
    const auto run = run_of_lines(lines);
    REQUIRE_FALSE(run.has_value());
    INFO(run.error().message);
    CHECK(run.error().message.find("t.jsonl:" + place + ": ") == 0);
    CHECK(contains(run.error().message, part));
  };
  const std::string seal = R"({"kind":"seal","step":3})" "\n", submit = R"({"kind":"submit","id":"a","prompt_ids":[1]})" "\n";
  check("", "2", "without any step");
  check(seal + seal, "3", "step 3 is sealed behind a newer one");
  check(seal + R"({"kind":"commit","step":4})" "\n", "3", "step 4 is committed, which is not the oldest");
  check(seal + R"({"kind":"abort","step":2})" "\n", "3", "step 2 is aborted, which is not the newest");
  check(seal + R"({"kind":"plan","step":2,"rows":[]})" "\n", "3", "step 2 is planned, which is not in flight");
  check(submit + submit, "3", "was submitted before");
  check(R"({"kind":"finish","id":"a"})" "\n" R"({"kind":"finish","id":"a"})" "\n", "3", "ended before");
  check(R"({"t_ns":-1,"kind":"seal","step":1})" "\n", "2", "t_ns");
  check(R"({"kind":"preempt","id":"a","how":"hide"})" "\n", "2", "hide");
}

namespace {

/// Sums over the events of an exported run.
struct ExportedSums {
  std::int64_t steps = 0, aborted = 0, step_rows = 0, request_rows = 0, evicted = 0, copies = 0, preempted = 0, ends = 0, output = 0;
  double step_us = 0;
};

/// Checks every event by itself, and that slices of one track do not overlap.
ExportedSums sums_of(const nlohmann::json& exported, std::int64_t num_blocks) {
  ExportedSums sums;
  std::map<std::pair<int, int>, double> end_us;
  for (const nlohmann::json& event : exported.at("traceEvents")) {
    const auto phase = event.at("ph").get<std::string>(), name = event.at("name").get<std::string>();
    const nlohmann::json& args = event.at("args");
    const int pid = event.at("pid").get<int>();
    if (phase == "M") continue;
    REQUIRE(event.at("ts").get<double>() >= 0);
    if (phase == "X") {
      const double ts = event.at("ts").get<double>(), dur = event.at("dur").get<double>();
      double& before = end_us[{pid, event.at("tid").get<int>()}];
      REQUIRE(dur >= 0);
      REQUIRE(ts >= before - 0.002);
      before = ts + dur;
      if (pid == 1) ++sums.steps, sums.aborted += name == "step" ? 0 : 1, sums.step_us += dur;
      if (pid == 1 && name == "step") sums.step_rows += args.at("rows").get<std::int64_t>();
      if (pid == 2) sums.request_rows += args.value("rows", std::int64_t{0});
    } else if (phase == "i") {
      REQUIRE(event.at("s") == "t");
      if (name == "evict") sums.evicted += args.at("blocks").get<std::int64_t>();
      if (name == "copy") sums.copies += args.at("blocks").get<std::int64_t>();
      if (name == "preempt") ++sums.preempted;
      if (name.rfind("finish: ", 0) == 0) ++sums.ends, sums.output += args.at("output_tokens").get<std::int64_t>();
    } else {
      REQUIRE(phase == "C");
      if (name != "blocks") continue;
      std::int64_t all = 0;
      for (const char* state : {"used", "pending", "cached", "free"}) all += args.at(state).get<std::int64_t>();
      REQUIRE(all == num_blocks);
    }
  }
  return sums;
}

}  // namespace

TEST_CASE("trace.export.the_events_sum_up_to_what_the_scheduler_did", "[trace]") {
  const TempDir dir;
  const std::string trace = dir / "run.jsonl", exported = dir / "run.json";
  const ScheduledCounts counts = record_scheduled_load(trace, {});
  const Outcome outcome = run_kvpage({"trace", "export", trace, "--perfetto", exported});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  const ExportedSums sums = sums_of(nlohmann::json::parse(read_text(exported)), 64);
  CHECK(sums.steps == counts.sealed_steps);
  CHECK(sums.aborted == counts.stats.aborted_steps);
  CHECK(sums.step_rows == counts.stats.tokens);
  CHECK(sums.request_rows == counts.stats.tokens);
  CHECK(sums.evicted == counts.evictions);
  CHECK(sums.copies == counts.stats.block_copies);
  CHECK(sums.preempted == counts.stats.preempted_keep + counts.stats.preempted_recompute);
  CHECK(sums.ends == counts.answers);
  CHECK(sums.output == counts.output_tokens);
  double step_ns = 0;
  const engine::RecordedRun run = run_of(trace);
  for (const engine::RunStep& step : run.timeline.steps()) step_ns += static_cast<double>(step.end_ns - step.begin_ns);
  CHECK(std::abs(sums.step_us - step_ns / 1000) < 0.01);
}

TEST_CASE("trace.export.wrong_files_are_named", "[trace]") {
  const TempDir dir;
  const std::string trace = dir / "run.jsonl";
  record_scheduled_load(trace, {.num_requests = 3});
  const auto fails = [&](const std::vector<std::string>& arguments, int exit_code, const std::string& part) {
    const Outcome failed = run_kvpage(arguments);
    INFO(failed.err);
    CHECK(failed.exit_code == exit_code);
    CHECK(contains(failed.err, part));
  };
  fails({"trace", "export", trace}, 2, "--perfetto");
  fails({"trace", "export", trace, "--perfetto", trace}, 2, "would overwrite its trace");
  fails({"trace", "export", dir / "none.jsonl", "--perfetto", dir / "o.json"}, 3, "none.jsonl");
  fails({"trace", "export", trace, "--perfetto", "/dev/full"}, 1, "/dev/full");
  fails({"trace", "export", trace, "--perfetto", dir / "no" / "o.json"}, 1, "o.json");
  const std::string text = read_text(trace);
  write_text(trace, text.substr(0, text.find('\n') + 1));
  fails({"trace", "export", trace, "--perfetto", dir / "o.json"}, 3, "run.jsonl:2: the trace ends without any step");
  CHECK_FALSE(std::filesystem::exists(dir / "o.json"));
  CHECK(contains(run_kvpage({"trace", "export", "--help"}).out, "Example:"));
}
