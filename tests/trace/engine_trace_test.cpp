/// \file Ids of requests in a trace that an engine writes.
#include "engine/engine_trace.hpp"

#include "engine/trace/trace_reader.hpp"
#include "support/catch.hpp"

#include <set>
#include <sstream>

namespace kvpage_test {
namespace {

using namespace kvpage::engine;

/// The id in the trace of each request, which is ended before the next one comes.
std::vector<std::string> traced_ids(const std::vector<std::string>& names) {
  auto* const out = new std::ostringstream;
  TraceRecorder recorder{std::unique_ptr<std::ostream>(out), "t.jsonl", {.num_blocks = 4, .block_size = 4}, [] { return 1; }};
  EngineTrace trace(&recorder);
  for (std::size_t i = 0; i < names.size(); ++i) {
    GenerationRequest request;
    request.name = names[i];
    request.prompt_ids = {1};
    const kvpage::RequestId id{i + 1};
    trace.submit(id, request);
    trace.finish({.request = id, .finish = kvpage::FinishReason::kLength, .last = true}, {});
  }
  REQUIRE(recorder.flush().has_value());
  auto reader = TraceReader::read(std::make_unique<std::istringstream>(out->str()), "t.jsonl").value();
  std::vector<std::string> ids;
  TraceLine line;
  while (reader.next(line).value()) {
    if (line.kind == "submit") ids.push_back(reader.request(line)->id);
  }
  return ids;
}

}  // namespace

TEST_CASE("trace.engine.ids_are_unique_in_the_whole_trace", "[trace]") {
  CHECK(traced_ids({"a", "", "b"}) == std::vector<std::string>{"a", "2", "b"});
  for (const std::vector<std::string>& names : std::vector<std::vector<std::string>>{
           {"2", ""}, {"", "1"}, {"x", "x", "x#2"}, {"x#2", "x"}, {"x#2", "x#2#2", "x", "x"},
           {"3", "x", "", "3#3", "x#2", "2", "", "7#7", "1"}}) {
    const std::vector<std::string> ids = traced_ids(names);
    INFO(names.front() << ", " << names.size() << " requests");
    CHECK(std::set<std::string>(ids.begin(), ids.end()).size() == names.size());
  }
}

}  // namespace kvpage_test
