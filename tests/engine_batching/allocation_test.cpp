/// \file What steps of an engine allocate, and that each allocation of a request may fail: an error, no leak, and the next request works.
#include "engine/async_engine.hpp"
#include "engine_batching/run_without_memory.hpp"
#include "support/allocation_count.hpp"

#include <array>
#include <cstdio>
#include <new>

namespace kvpage_test {
namespace {

using namespace kvpage::engine;
using kvpage::StatusCode;

/// One of each way to sample that runs until max_tokens; none of them ends by itself.
std::vector<GenerationRequest> every_way(std::int64_t max_tokens, std::int64_t num_logprobs) {
  std::vector<GenerationRequest> requests(6, ask(some_ids(9, 3), max_tokens));
  for (GenerationRequest& request : requests) request.num_logprobs = num_logprobs;
  requests[1].sampling = {.temperature = 0.7f, .min_p = 0.01f, .top_k = 40, .top_p = 0.9f};
  requests[1].seed = 7;
  requests[2].sampling = {.temperature = 0, .repetition_penalty = 1.1f, .frequency_penalty = 0.1f};
  requests[2].logit_bias = {{3, 1.0f}};
  requests[3].n = 2, requests[3].seed = 8;
  requests[4].stop_strings = {"a text that no answer has"};
  requests[5].best_of = 2, requests[5].seed = 9;
  return requests;
}

/// Answers that `every_way` computes, and those of which tokens are shown.
constexpr std::int64_t kAnswers = 8, kShown = 6;

/// Bytes that `count` steps take, after as many warm ones, while all answers run.
std::size_t bytes_of_warm_steps(const TinyModel& shape, std::int64_t num_logprobs, int count) {
  auto config = tiny_config("cpu", "int8", 2);
  config.pool_tokens = 16 * 128;
  const TextModel text(shape, config);
  TestEnv env;
  TestEngine engine(*text.model, small_steps(8, 64), {}, env, {}, &text.tokenizer);
  for (const GenerationRequest& request : every_way(100, num_logprobs)) REQUIRE(engine.submit(request));
  for (int i = 0; i < count; ++i) REQUIRE(engine.step().status.ok());
  const std::size_t before = allocated_bytes();
  bool whole = true;
  for (int i = 0; i < count; ++i) {
    const StepOutput& output = engine.step();
    whole = whole && output.status.ok() && output.num_seqs == kAnswers && std::ssize(output.tokens) == kShown && output.finished.empty();
  }
  const std::size_t bytes = allocated_bytes() - before;
  CHECK(whole);
  return bytes;
}

/// Lets each allocation of the requests fail once, until there are no more. Returns how many there are.
std::int64_t fail_each(const TextModel& text, std::int64_t tier_pages) {
  const std::int64_t tier_bytes = tier_pages * text.model->page_bytes();
  const auto requests = hard_requests();
  const Told want = [&] {
    Run run(text, tier_bytes);
    run.submit(requests);
    return run.finish();
  }();
  std::int64_t k = 1, num_seen = 0;
  for (bool happened = true; happened; ++k) {
    INFO("allocation " << k);
    const std::int64_t before = live_allocations();
    {
      Run run(text, tier_bytes);
      std::optional<Told> told;
      {
        const FailedAllocation failed(k);
        run.submit(requests);
        told = run.finish();
        happened = failed.happened();
      }
      REQUIRE((*told == want));
      num_seen += run.num_failures;
      run.check_empty();
      run.submit(requests);
      REQUIRE((run.finish() == want));  // also from the cache that the failure left
    }
    REQUIRE(live_allocations() == before);
  }
  std::printf("%lld allocations, %lld of their failures were seen\n", static_cast<long long>(k - 2), static_cast<long long>(num_seen));
  CHECK(num_seen > k / 2);  // the others had a way without the memory
  return k;
}

/// The ids of a first answer, or nothing when memory was missing for it.
std::optional<std::vector<TokenId>> ids_of(AsyncEngine<TestEngine>& async, GenerationRequest request) {
  std::optional<kvpage::Expected<AnswerStream, kvpage::Refusal>> stream;
  try {
    stream.emplace(async.submit(std::move(request)));
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
  (*stream)->wait();
  const OwnAllocations own;
  const kvpage::Status status = (*stream)->status();
  CHECK((status.ok() || status.code() == StatusCode::kOutOfMemory));
  if (!status.ok()) return std::nullopt;
  return (*stream)->result().answers.front().ids;
}

}  // namespace

TEST_CASE("engine.allocations.every_form_of_new_counts_and_can_fail", "[engine]") {
  using std::align_val_t, std::nothrow;
  constexpr align_val_t kWide{64};
  const auto forms = std::array<std::function<void*()>, 8>{
      [] { return ::operator new(100); },          [] { return ::operator new[](100); },
      [] { return ::operator new(100, kWide); },   [] { return ::operator new[](100, kWide); },
      [] { return ::operator new(100, nothrow); }, [] { return ::operator new[](100, nothrow); },
      [] { return ::operator new(100, kWide, nothrow); }, [] { return ::operator new[](100, kWide, nothrow); }};
  for (std::size_t form = 0; form < forms.size(); ++form) {
    INFO("form " << form);
    const std::size_t before = allocated_bytes();
    const std::int64_t live = live_allocations();
    void* const memory = forms[form]();
    const bool counted = allocated_bytes() == before + 100 && live_allocations() == live + 1;
    CHECK(counted);
    CHECK((form % 4 < 2 || reinterpret_cast<std::uintptr_t>(memory) % 64 == 0));
    form % 4 < 2 ? ::operator delete(memory) : ::operator delete(memory, kWide);
    bool failed = false;
    {
      const FailedAllocation next(1);
      try {
        failed = forms[form]() == nullptr;
      } catch (const std::bad_alloc&) {
        failed = true;
      }
    }
    CHECK(failed);
  }
}

TEST_CASE("engine.allocations.a_warm_decode_step_takes_none", "[engine]") {
  for (const TinyModel& shape : {every_switch(), plain_model(), quantised_model()}) {
    INFO(shape.architecture << ", " << shape.hidden);
    CHECK(bytes_of_warm_steps(shape, -1, 30) == 0);
    CHECK(bytes_of_warm_steps(shape, 0, 30) == 0);
  }
}

TEST_CASE("engine.allocations.likely_tokens_that_an_answer_keeps_are_all_that_a_step_takes", "[engine]") {
  for (const std::int64_t k : {1, 3}) {
    CHECK(bytes_of_warm_steps(plain_model(), k, 30) == static_cast<std::size_t>(30 * kAnswers * k) * sizeof(TokenLogprob));
  }
}

TEST_CASE("engine.allocations.each_of_a_request_may_fail", "[engine]") {
  auto config = tiny_config("cpu", "int8");
  config.pool_tokens = 112;
  for (const auto& [shape, pool_blocks, tier_pages] : {std::tuple{plain_model(), 0, 0}, std::tuple{every_switch(), 26, 16}}) {
    config.pool_blocks = pool_blocks;
    const TextModel text(shape, config);
    CHECK(fail_each(text, tier_pages) > 100);
  }
}

TEST_CASE("engine.allocations.each_of_a_scored_text_may_fail", "[engine]") {
  auto config = tiny_config("cpu", "int8");
  config.pool_tokens = 112;
  const TextModel text(every_switch(), config);
  const auto ids = some_ids(50, 5);
  SequenceRunner alone(*text.model);
  alone.set_chunk_tokens(16);
  const auto want = start_last(alone, ids);
  bool happened = true;
  std::int64_t num_thrown = 0;
  for (std::int64_t k = 1; happened; ++k) {
    INFO("allocation " << k);
    const std::int64_t before = live_allocations();
    {
      SequenceRunner runner(*text.model);
      runner.set_chunk_tokens(16);
      {
        const FailedAllocation failed(k);
        bool started = true;
        try {
          started = runner.start(ids, LogitRows::kLast).has_value();
        } catch (const std::bad_alloc&) {
          ++num_thrown;
        }
        happened = failed.happened();
        const OwnAllocations own;
        REQUIRE(started);
      }
      REQUIRE(start_last(runner, ids) == want);
      runner.finish();
      CHECK(runner.cache().allocator().capacity().used == 0);
    }
    REQUIRE(live_allocations() == before);
  }
  CHECK(num_thrown > 10);
}

TEST_CASE("engine.allocations.each_of_an_asynchronous_request_may_fail", "[engine]") {
  auto config = tiny_config("cpu", "int8");
  config.pool_tokens = 112;
  const TextModel text(plain_model(), config);
  const GenerationRequest request = ask(some_ids(20, 5), 6);
  const std::vector<TokenId> want = alone(*text.model, request).ids;
  TestEnv env;
  bool happened = true;
  std::int64_t num_missing = 0;
  for (std::int64_t k = 1; happened; ++k) {
    INFO("allocation " << k);
    const std::int64_t before = live_allocations();
    {
      TestEngine engine(*text.model, small_steps(3, 24), {}, env, {}, &text.tokenizer);
      AsyncEngine<TestEngine> async(engine);
      GenerationRequest given = request;
      {
        const FailedAllocation failed(k);
        const auto ids = ids_of(async, std::move(given));
        happened = failed.happened();
        const OwnAllocations own;
        num_missing += ids ? 0 : 1;
        REQUIRE((!ids || *ids == want));
      }
      REQUIRE((ids_of(async, request) == want));
    }
    REQUIRE(live_allocations() == before);
  }
  CHECK(num_missing > 10);
}

TEST_CASE("engine.allocations.without_memory_a_step_gives_up_and_goes_on_when_there_is_some", "[engine]") {
  const TextModel text(plain_model(), tiny_config("cpu", "int8"));
  TestEnv env;
  EngineConfig config = small_steps();
  config.limits.max_aborts = 3;
  TestEngine engine(*text.model, config, {}, env, {}, &text.tokenizer);
  const GenerationRequest request = ask(some_ids(20, 5), 6);
  const Bits want = alone(*text.model, request);
  const auto ticket = engine.submit(request);
  REQUIRE(ticket);
  {
    const FailedAllocation failed(1, 1'000'000);
    for (int i = 1; i <= 4; ++i) {
      const StepOutput& output = engine.step();
      const OwnAllocations own;
      INFO("step " << i);
      CHECK(output.status.code() == StatusCode::kOutOfMemory);
      CHECK(output.gave_up == (i >= 3));
    }
  }
  CHECK(Bits::of(run_all(engine).of(ticket->id)) == want);
}

}  // namespace kvpage_test
