/// \file A trace reads back as what was recorded, also when its writer was killed; what is wrong in one is named with its line.
#include "engine/trace/cache_trace.hpp"
#include "engine/trace/event_names.hpp"
#include "engine/trace/trace_reader.hpp"

#include "loader/temp_dir.hpp"
#include "support/catch.hpp"
#include "trace/synthetic_load.hpp"

#include <sstream>

using namespace kvpage;
using namespace kvpage_test;
using engine::TraceLine;
using engine::TraceReader;
using engine::TraceRecorder;

namespace {

/// Without what a trace leaves out, as other lines tell it.
CacheEvent as_traced(CacheEvent event) {
  if (event.kind == CacheEventKind::kAdopt) event.num_tokens = 0;
  if (event.kind == CacheEventKind::kHide) event.seq = {};
  return event;
}

TraceReader reader_of(const std::string& text) {
  return TraceReader::read(std::make_unique<std::istringstream>(text), "t.jsonl").value();
}

/// A recorder whose text can be looked at.
struct Recording {
  std::ostringstream* out = new std::ostringstream;
  std::int64_t now_ns = 100;
  TraceRecorder recorder{std::unique_ptr<std::ostream>(out), "t.jsonl", {.num_blocks = 64, .block_size = 16}, [this] { return now_ns; }};
  std::string text() {
    REQUIRE(recorder.flush().has_value());
    return out->str();
  }
};

const std::string kHeader = R"({"kind":"header","version":1,"config":{"num_blocks":8,"block_size":16}})" "\n";

/// The message for a trace with this text, read to its end in every way.
std::string problem_of(const std::string& text) {
  auto reader = TraceReader::read(std::make_unique<std::istringstream>(text), "t.jsonl");
  if (!reader) return reader.error().message;
  TraceLine line;
  while (true) {
    const auto more = reader->next(line);
    if (!more) return more.error().message;
    if (!*more) return "";
    if (line.kind == "submit") {
      if (const auto request = reader->request(line); !request) return request.error().message;
    }
    if (line.kind == "finish") {
      if (const auto end = reader->finish(line); !end) return end.error().message;
    }
    if (line.kind == "plan") {
      if (const auto plan = reader->plan(line); !plan) return plan.error().message;
    }
    if (line.kind == "preempt") {
      if (const auto preemption = reader->preemption(line); !preemption) return preemption.error().message;
    }
    if (line.kind == "transfer") {
      if (const auto transfer = reader->transfer(line); !transfer) return transfer.error().message;
    }
    if (const auto events = reader->events(line); !events) return events.error().message;
  }
}

}  // namespace

TEST_CASE("trace.file.events_read_back_as_they_happened", "[trace]") {
  Recording recording;
  std::vector<CacheEvent> kept;
  engine::CacheTrace trace{&recording.recorder};
  SyntheticLoad load{{.num_blocks = 64}, 5, [&](const CacheEvent& event) {
                       trace.on_event(event);
                       kept.push_back(event);
                     }};
  for (int i = 0; i < 400; ++i) load.step();
  auto reader = reader_of(recording.text());
  CHECK(reader.header().num_blocks == 64);
  std::size_t at = 0;
  std::uint64_t newest = 0;
  TraceLine line;
  while (reader.next(line).value()) {
    const auto events = reader.events(line);
    for (const CacheEvent& event : events.value()) {
      REQUIRE(at < kept.size());
      const CacheEvent told = as_traced(kept[at++]);
      newest = std::max(newest, told.step.value);
      INFO("event " << at << ", line " << line.number << ", " << engine::name_of(told.kind));
      REQUIRE(event.kind == told.kind);
      // Changes outside of steps carry the newest one.
      REQUIRE(event.step.value == (told.kind >= CacheEventKind::kSeal ? told.step.value : newest));
      REQUIRE(event.block == told.block);
      REQUIRE(event.other == told.other);
      REQUIRE(event.seq.generation == told.seq.generation);
      REQUIRE(event.num_tokens == told.num_tokens);
      if (event.kind == CacheEventKind::kPublish) REQUIRE(event.content_key == told.content_key);
    }
  }
  CHECK(at == kept.size());
  CHECK(newest > 300);
}

TEST_CASE("trace.file.requests_read_back_as_they_were", "[trace]") {
  Recording recording;
  const std::string id = "a \"b\"\n\xff";
  recording.recorder.submit({.id = id, .prompt_ids = {1, 4294967295u}, .max_tokens = 7, .tenant = "t", .priority = 0, .ttl_ns = 9});
  recording.now_ns = 250;
  recording.recorder.plan(std::vector<engine::PlannedRow>{{"a", SeqId{3, 12}, 5, 6}});
  recording.recorder.finish({.id = "a", .reason = "stop", .output_ids = {2, 3}});
  recording.recorder.capacity({.num_blocks = 64, .clean = 60, .used = 4, .num_seqs = 1});
  auto reader = reader_of(recording.text());
  TraceLine line;
  REQUIRE(reader.next(line).value());
  const auto request = reader.request(line).value();
  CHECK(request.id == "a \"b\"\n\xEF\xBF\xBD");  // bytes that are no text become the replacement character
  CHECK(request.t_ns == 100);
  CHECK(request.prompt_ids == std::vector<TokenId>{1, 4294967295u});
  CHECK(request.max_tokens == 7);
  CHECK(request.tenant == "t");
  CHECK(request.priority == 0);
  CHECK(request.ttl_ns == 9);
  REQUIRE(reader.next(line).value());
  const auto rows = reader.plan(line).value().rows;
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].seq.generation == 12);
  CHECK(rows[0].first_position == 5);
  CHECK(rows[0].num_tokens == 6);
  REQUIRE(reader.next(line).value());
  const auto end = reader.finish(line).value();
  CHECK(end.t_ns == 250);
  CHECK(end.reason == "stop");
  CHECK(end.output_ids == std::vector<TokenId>{2, 3});
  REQUIRE(reader.next(line).value());
  CHECK(reader.capacity(line).value().clean == 60);
  CHECK_FALSE(reader.next(line).value());
  CHECK_FALSE(reader.cut_short());
}

TEST_CASE("trace.file.answers_preemptions_and_transfers_read_back_as_they_were", "[trace]") {
  Recording recording;
  recording.recorder.submit({.id = "a", .prompt_ids = {1}, .max_tokens = 7, .num_answers = 3});
  const std::vector<engine::PlannedRow> planned{{"a", SeqId{0, 12}, 0, 6},        {"a", SeqId{0, 13}, 5, 1, 2},
                                                {"b", SeqId{0, 14}, 32, 9, 0, 32}, {"b", SeqId{0, 15}, 0, 1, 1, 0}};
  recording.recorder.plan(planned, StepId{8});
  recording.now_ns = 300;
  recording.recorder.preempt({.id = "a", .answer = 2, .kind = kvpage::PreemptionKind::kDemote});
  recording.recorder.transfer({.demoted_blocks = 4});
  recording.recorder.transfer({.id = "a", .answer = 2, .promoted_blocks = 5});
  recording.recorder.finish({.id = "a", .answer = 2, .reason = "length", .output_ids = {}});
  auto reader = reader_of(recording.text());
  TraceLine line;
  REQUIRE(reader.next(line).value());
  CHECK(reader.request(line).value().num_answers == 3);
  REQUIRE(reader.next(line).value());
  const engine::TracePlan plan = reader.plan(line).value();
  CHECK(plan.step == StepId{8});
  REQUIRE(plan.rows.size() == planned.size());
  for (std::size_t i = 0; i < planned.size(); ++i) {
    INFO("row " << i);
    CHECK(plan.rows[i].id == planned[i].id);
    CHECK(plan.rows[i].seq == planned[i].seq);
    CHECK(plan.rows[i].first_position == planned[i].first_position);
    CHECK(plan.rows[i].num_tokens == planned[i].num_tokens);
    CHECK(plan.rows[i].answer == planned[i].answer);
    CHECK(plan.rows[i].cached_tokens == planned[i].cached_tokens);
  }
  REQUIRE(reader.next(line).value());
  const auto preemption = reader.preemption(line).value();
  CHECK(preemption.t_ns == 300);
  CHECK(preemption.id == "a");
  CHECK(preemption.answer == 2);
  CHECK(preemption.kind == kvpage::PreemptionKind::kDemote);
  REQUIRE(reader.next(line).value());
  CHECK(reader.transfer(line).value().id.empty());
  CHECK(reader.transfer(line).value().demoted_blocks == 4);
  REQUIRE(reader.next(line).value());
  CHECK(reader.transfer(line).value().id == "a");
  CHECK(reader.transfer(line).value().answer == 2);
  CHECK(reader.transfer(line).value().promoted_blocks == 5);
  CHECK(reader.transfer(line).value().demoted_blocks == 0);
  REQUIRE(reader.next(line).value());
  CHECK(reader.finish(line).value().answer == 2);
}

TEST_CASE("trace.file.a_killed_writer_leaves_a_readable_trace", "[trace]") {
  Recording recording;
  engine::CacheTrace trace{&recording.recorder};
  SyntheticLoad load{{.num_blocks = 64}, 5, [&](const CacheEvent& event) { trace.on_event(event); }};
  for (int i = 0; i < 6; ++i) load.step();
  const std::string whole = recording.text();
  std::size_t complete = 0;
  for (std::size_t size = whole.find('\n') + 1; size <= whole.size(); ++size) {
    const std::string part = whole.substr(0, size);
    complete = static_cast<std::size_t>(std::count(part.begin(), part.end(), '\n')) - 1;
    auto reader = reader_of(part);
    TraceLine line;
    std::size_t lines = 0;
    while (reader.next(line).value()) ++lines;
    const bool at_end = part.back() == '\n' || part.back() == '}';
    if (part.back() == '\n') REQUIRE(lines == complete);
    REQUIRE(reader.cut_short() == (lines == complete && part.back() != '\n'));
    REQUIRE((at_end || reader.cut_short()));
  }
  CHECK(complete > 10);
}

TEST_CASE("trace.file.the_end_of_a_request_is_written_at_once", "[trace]") {
  const TempDir dir;
  const std::string path = dir / "t.jsonl";
  const auto recorder = TraceRecorder::open(path, {}, [] { return std::int64_t{5}; }).value();
  const auto lines = [&] {
    std::vector<std::string> kinds;
    auto reader = TraceReader::open(path).value();
    for (TraceLine line; reader.next(line).value();) kinds.push_back(line.kind);
    CHECK_FALSE(reader.cut_short());
    return kinds;
  };
  recorder->submit({.id = "a", .prompt_ids = {1, 2}, .max_tokens = 1, .tenant = "", .priority = 0});
  recorder->event({.kind = CacheEventKind::kSeqStart, .seq = {0, 1}});
  recorder->finish({.id = "a", .reason = "stop", .output_ids = {3}});
  CHECK(lines() == std::vector<std::string>{"submit", "event", "finish"});
  recorder->capacity({.num_blocks = 4, .clean = 4});
  CHECK(lines().back() == "capacity");
}

TEST_CASE("trace.file.what_is_wrong_is_named_with_its_line", "[trace]") {
  const auto check = [](const std::string& text, const std::string& place, const std::string& part) {
    INFO(text);
    const std::string message = problem_of(text);
    INFO(message);
    CHECK(message.find("t.jsonl:" + place + ": ") == 0);
    CHECK(message.find(part) != std::string::npos);
  };
  check("", "1", "header");
  check(R"({"kind":"submit"})" "\n", "1", "header");
  check(R"({"kind":"header","version":2})" "\n", "1", "version 2");
  check(R"({"kind":"header","version":1,"seed":-1})" "\n", "1", "seed");
  check(R"({"kind":"header","version":1,"seed":18446744073709551616})" "\n", "1", "not 18446744073709551616");
  check(R"({"kind":"header","version":1,"config":"x"})" "\n", "1", "\"config\" must be an object, not \"x\"");
  check(R"({"kind":"header","version":1,"version":1})" "\n", "1", "\"version\" is there twice");
  const std::string config = R"({"kind":"header","version":1,"config":)";
  check(config + R"({"num_blocks":2147483647}})" "\n", "1", "\"num_blocks\" is 2147483647; a trace can be of a pool of at most 16777216");
  check(config + R"({"num_blocks":16777217}})" "\n", "1", "16777217");
  CHECK(problem_of(config + R"({"num_blocks":16777216}})" "\n").empty());
  check(config + R"({"groups":[{},{},{},{},{}]}})" "\n", "1", "at most 4 cache groups");
  check(config + R"({"groups":[512]}})" "\n", "1", "512");
  check("hello\n", "1", "JSON object");
  check(kHeader + "\n{\"kind\":1}\n", "3", "kind");
  check(kHeader + "{\"kind\":\"submit\"\n{}\n", "2", "JSON object");
  check(kHeader + R"({"kind":"submit","id":"a"})" "\n", "2", "prompt_ids");
  check(kHeader + R"({"kind":"submit","id":[],"prompt_ids":[1]})" "\n", "2", "id");
  check(kHeader + R"({"kind":"submit","id":"a","prompt_ids":[]})" "\n", "2", "no token");
  check(kHeader + R"({"kind":"submit","id":"a","prompt_ids":[4294967296]})" "\n", "2", "4294967296");
  check(kHeader + R"({"kind":"submit","id":"a","prompt_ids":[1.5]})" "\n", "2", "1.5");
  check(kHeader + R"({"kind":"submit","id":"a","tokens":[1],"priority":101})" "\n", "2", "priority");
  check(kHeader + R"({"kind":"event","step":1,"events":[["alloc",8,1]]})" "\n", "2", "[0, 8)");
  check(kHeader + R"({"kind":"event","step":1,"events":[["alloc",7]]})" "\n", "2", "too short");
  check(kHeader + R"({"kind":"event","step":1,"events":[["fly",7,1]]})" "\n", "2", "fly");
  check(kHeader + R"({"kind":"event","step":1,"events":[["publish",7,1,"xyz",16]]})" "\n", "2", "hexadecimal");
  check(kHeader + R"({"kind":"event","step":1,"events":{}})" "\n", "2", "array");
  check(kHeader + R"({"kind":"seal"})" "\n", "2", "step");
  check(kHeader + R"({"kind":"plan","rows":[5]})" "\n", "2", "array");
  check(kHeader + R"({"kind":"plan","rows":[["a",1,0,1,-1]]})" "\n", "2", "answer");
  check(kHeader + R"({"kind":"plan","rows":[["a",1,4611686018427387903,4611686018427387903]]})" "\n", "2", "[0, 4294967296)");
  check(kHeader + "{\"kind\":\"finish\",\"id\":\"a\xff\"}\n", "2", "byte 25 (0xff) is not UTF-8");
  const std::string deep = std::string(300'000, '[') + std::string(300'000, ']');
  check(kHeader + R"({"kind":"event","step":1,"events":[)" + deep + "]}\n", "2", "unknown event an array of 1");
  check(R"({"kind":"header","version":1,"config":{"groups":)" + deep + "}}\n", "1", "cache group");
  check(kHeader + R"({"kind":"preempt","id":"a"})" "\n", "2", "how");
  check(kHeader + R"({"kind":"preempt","id":"a","how":"drop"})" "\n", "2", "not \"drop\"");
  check(kHeader + R"({"kind":"transfer","demoted":1.5})" "\n", "2", "\"demoted\"");
  CHECK(problem_of(kHeader + R"({"kind":"fault","what":"unknown kinds are skipped"})" "\n").empty());
}

TEST_CASE("trace.file.what_cannot_be_written_is_an_error", "[trace]") {
  const TempDir dir;
  const auto refused = TraceRecorder::open((dir / "no" / "t.jsonl").string(), {}, [] { return std::int64_t{0}; });
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.find("t.jsonl") != std::string::npos);
  CHECK_FALSE(TraceReader::open((dir / "none.jsonl").string()).has_value());
  const auto full = TraceRecorder::open("/dev/full", {}, [] { return std::int64_t{0}; });
  REQUIRE(full.has_value());
  const auto flushed = (*full)->flush();
  REQUIRE_FALSE(flushed.has_value());
  CHECK(flushed.error().message.find("/dev/full") != std::string::npos);
}
