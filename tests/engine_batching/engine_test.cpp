/// \file Many requests on one tiny model: each gets what it gets alone; refusals, cancellation and failed steps hurt nobody else.
#include "engine_batching/engine_fixture.hpp"

#include <algorithm>
#include <limits>

namespace kvpage_test {
namespace {

using namespace kvpage::engine;
using kvpage::FinishReason;
using kvpage::RefusalKind;

ModelConfig roomy() {
  ModelConfig config = tiny_config("cpu", "f16");
  config.pool_tokens = 112, config.num_seqs = 8;
  return config;
}

void check_empty(TestEngine& engine) {
  CHECK(engine.num_requests() == 0);
  CHECK(engine.cache().allocator().capacity().used == 0);
  engine.cache().allocator().check_invariants();
}

}  // namespace

TEST_CASE("engine.batch.each_request_gets_what_it_gets_alone", "[engine]") {
  for (const TinyModel& shape : {every_switch(), quantised_model()}) {
    const TinyFile file(shape);
    const auto model = file.load(roomy());
    std::vector<GenerationRequest> requests;
    for (std::uint32_t i = 0; i < 9; ++i) requests.push_back(ask(some_ids(5 + 9 * i, i % 4 + 1), 3 + i));
    std::vector<Bits> want;
    for (const auto& request : requests) want.push_back(alone(*model, request));
    TestEnv env;
    TestEngine engine(*model, small_steps(), {}, env, {}, nullptr);
    std::vector<kvpage::RequestId> ids;
    for (const auto& request : requests) ids.push_back(engine.submit(request).value().id);
    const Results results = run_all(engine);
    std::int64_t cached = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      INFO(shape.architecture << ", request " << i);
      const GenerationResult& result = results.of(ids[i]);
      CHECK((Bits::of(result) == want[i]));
      CHECK(result.answers.front().finish == FinishReason::kLength);
      CHECK(result.metrics.prompt_tokens == std::ssize(requests[i].prompt_ids));
      CHECK(result.metrics.positions_computed ==
            result.metrics.prompt_tokens - result.metrics.cached_tokens + std::ssize(want[i].ids) - 1 + result.metrics.recomputed_tokens);
      cached += result.metrics.cached_tokens;
    }
    CHECK(cached > 0);
    CHECK(engine.stats().steps < 9 * 20);
    check_empty(engine);
  }
}

TEST_CASE("engine.batch.a_refusal_names_rule_value_and_limit_and_leaves_nothing", "[engine]") {
  const TinyFile file(plain_model());
  ModelConfig small = roomy();
  small.pool_blocks = 4;
  const auto model = file.load(small);
  TestEnv env;
  EngineConfig config = small_steps();
  config.limits.max_waiting = 2;
  TestEngine engine(*model, config, {}, env, {}, nullptr);
  const auto refusal = [&](const GenerationRequest& request) {
    const auto ticket = engine.submit(request);
    REQUIRE_FALSE(ticket);
    return ticket.error();
  };
  CHECK(refusal(ask({})).kind == RefusalKind::kEmptyPrompt);
  const auto too_long = refusal(ask(some_ids(112)));
  CHECK(too_long.kind == RefusalKind::kContextLimit);
  CHECK(too_long.value == 112);
  CHECK(too_long.limit == 112);
  const auto too_big = refusal(ask(some_ids(65)));
  CHECK(too_big.kind == RefusalKind::kNeverFits);
  CHECK(too_big.value == 65);
  CHECK(too_big.limit == 64);
  CHECK(engine.submit(ask(some_ids(5))));
  CHECK(engine.submit(ask(some_ids(6))));
  const auto full = refusal(ask(some_ids(7)));
  CHECK(full.kind == RefusalKind::kQueueFull);
  CHECK(full.limit == 2);
  CHECK(run_all(engine).size() == 2);
  engine.shut_down();
  CHECK(refusal(ask(some_ids(5))).kind == RefusalKind::kShuttingDown);
  check_empty(engine);
}

TEST_CASE("engine.batch.an_answer_that_fills_the_pool_ends_with_capacity", "[engine]") {
  const TinyFile file(plain_model());
  ModelConfig small = roomy();
  small.pool_blocks = 2;
  const auto model = file.load(small);
  TestEnv env;
  TestEngine engine(*model, small_steps(), {}, env, {}, nullptr);
  const auto ticket = engine.submit(ask(some_ids(20), 100));
  REQUIRE(ticket);
  CHECK(ticket->max_new_tokens == 13);
  const Results results = run_all(engine);
  CHECK(results.of(ticket->id).answers.front().finish == FinishReason::kCapacity);
  CHECK(results.of(ticket->id).answers.front().ids.size() == 13);
}

TEST_CASE("engine.batch.an_answer_ends_for_each_reason", "[engine]") {
  const TinyFile file(plain_model());
  ModelConfig small = roomy();
  small.pool_tokens = 32;
  const auto model = file.load(small);
  std::vector<TokenId> whole;
  const auto run = [&](const GenerationRequest& request, std::vector<TokenId> end_tokens = {}) {
    TestEnv env;
    TestEngine engine(*model, small_steps(), {}, env, end_tokens, nullptr);
    const auto id = engine.submit(request).value().id;
    Answer answer = run_all(engine).of(id).answers.front();
    if (whole.empty()) return answer;
    REQUIRE(answer.ids.size() <= whole.size());
    CHECK(std::equal(answer.ids.begin(), answer.ids.end(), whole.begin()));
    return answer;
  };
  const GenerationRequest long_one = ask(some_ids(20), 100);
  const Answer full = run(long_one);
  whole = full.ids;
  CHECK(full.finish == FinishReason::kLength);
  CHECK(whole.size() == 12);  // the context holds prompt and answer
  const Answer cut = run(ask(some_ids(20), 5));
  CHECK(cut.finish == FinishReason::kLength);
  CHECK(cut.ids.size() == 5);
  GenerationRequest with_end = long_one;
  with_end.ignore_eos = false;
  const Answer ended = run(with_end, {whole[0]});
  CHECK(ended.finish == FinishReason::kStop);
  CHECK(ended.ids.empty());
  GenerationRequest with_stop = long_one;
  with_stop.stop_tokens = {whole[3]};
  const Answer stopped = run(with_stop);
  CHECK(stopped.finish == FinishReason::kStop);
  CHECK(std::ssize(stopped.ids) == std::find(whole.begin(), whole.end(), whole[3]) - whole.begin());
}

TEST_CASE("engine.batch.cancelling_gives_what_there_is_and_disturbs_nobody", "[engine]") {
  const TinyFile file(every_switch());
  const auto model = file.load(roomy());
  const GenerationRequest kept = ask(some_ids(30, 3), 20);
  const Bits want = alone(*model, kept);
  for (int after = 0; after < 12; ++after) {
    INFO("after " << after << " steps");
    TestEnv env;
    TestEngine engine(*model, small_steps(2), {}, env, {}, nullptr);
    const auto first = engine.submit(ask(some_ids(40, 1), 30)).value().id;
    const auto second = engine.submit(kept).value().id;
    const auto third = engine.submit(ask(some_ids(40, 2), 30)).value().id;
    Results results;
    for (int i = 0; i < after; ++i) results.take(engine.step());
    CHECK(engine.cancel(first));
    CHECK(engine.cancel(third));
    CHECK_FALSE(engine.cancel(third));
    while (engine.num_requests() > 0) results.take(engine.step());
    results.take(engine.step());
    CHECK(results.of(first).answers.front().finish == FinishReason::kCancelled);
    CHECK(results.of(third).answers.front().finish == FinishReason::kCancelled);
    CHECK((Bits::of(results.of(second)) == want));
    CHECK_FALSE(engine.cancel(second));
    check_empty(engine);
  }
}

TEST_CASE("engine.batch.a_failed_step_is_tried_again_with_the_same_text", "[engine]") {
  const TinyFile file(every_switch());
  const auto inner = file.load(roomy());
  HookedModel model(*inner);
  const GenerationRequest one = ask(some_ids(30, 3), 10), two = ask(some_ids(37, 5), 12);
  const Bits want_one = alone(*inner, one), want_two = alone(*inner, two);
  int calls = 0;
  model.before_forward = [&](const kvpage::BatchPlan&) {
    return ++calls % 3 == 0 ? kvpage::Status(kvpage::StatusCode::kCapacity, "planted") : kvpage::Status();
  };
  TestEnv env;
  TestEngine engine(model, small_steps(), {}, env, {}, nullptr);
  const auto first = engine.submit(one).value().id, second = engine.submit(two).value().id;
  Results results;
  int failed = 0;
  while (engine.num_requests() > 0) {
    const StepOutput& output = engine.step();
    failed += output.status.ok() ? 0 : 1;
    CHECK((output.status.ok() || std::string(output.status.message()) == "planted"));
    results.take(output);
  }
  CHECK(failed > 3);
  CHECK(engine.stats().aborted_steps == failed);
  CHECK((Bits::of(results.of(first)) == want_one));
  CHECK((Bits::of(results.of(second)) == want_two));
  check_empty(engine);
}

TEST_CASE("engine.batch.a_model_that_always_fails_loses_no_request", "[engine]") {
  const TinyFile file(plain_model());
  const auto inner = file.load(roomy());
  HookedModel model(*inner);
  bool broken = true;
  model.before_forward = [&](const kvpage::BatchPlan&) {
    return broken ? kvpage::Status(kvpage::StatusCode::kCapacity, "planted") : kvpage::Status();
  };
  TestEnv env;
  TestEngine engine(model, small_steps(), {}, env, {}, nullptr);
  const auto id = engine.submit(ask(some_ids(20))).value().id;
  for (int i = 0; i < 4; ++i) {
    const StepOutput& output = engine.step();
    CHECK(output.status.code() == kvpage::StatusCode::kCapacity);
    CHECK(output.gave_up == (i >= 2));
  }
  CHECK(engine.num_requests() == 1);
  broken = false;
  CHECK(run_all(engine).of(id).answers.front().ids.size() == 8);
}

TEST_CASE("bug.B33.a_row_of_nan_ends_its_own_request_only", "[engine]") {
  const TinyFile file(plain_model());
  const auto inner = file.load(roomy());
  HookedModel model(*inner);
  TestEnv env;
  TestEngine engine(model, small_steps(), {}, env, {}, nullptr);
  std::vector<GenerationRequest> requests;
  for (std::uint32_t i = 0; i < 4; ++i) requests.push_back(ask(some_ids(10 + i, i + 1), 12));
  std::vector<Bits> want;
  for (const auto& request : requests) want.push_back(alone(*inner, request));
  std::vector<kvpage::RequestId> ids;
  for (const auto& request : requests) ids.push_back(engine.submit(request).value().id);
  std::vector<std::int64_t> spoiled;  // rows of the third request in the running step, from its sixth token on
  engine.on_plan([&](const kvpage::BatchPlan& plan) {
    spoiled.clear();
    for (const auto& sample : plan.samples) {
      if (sample.request == ids[2] && sample.position >= 12 + 5) spoiled.push_back(sample.logit_index);
    }
  });
  model.on_logits = [&](std::int64_t index, std::span<float> logits) {
    if (std::count(spoiled.begin(), spoiled.end(), index) > 0) logits[7] = std::numeric_limits<float>::quiet_NaN();
  };
  const Results results = run_all(engine);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    INFO("request " << i);
    const Answer& answer = results.of(ids[i]).answers.front();
    CHECK(answer.finish == (i == 2 ? FinishReason::kError : FinishReason::kLength));
    const std::size_t tokens = i == 2 ? 5 : 12;
    REQUIRE(answer.ids.size() == tokens);
    CHECK(std::equal(answer.ids.begin(), answer.ids.end(), want[i].ids.begin()));
  }
  check_empty(engine);
}

TEST_CASE("engine.batch.deadlines_end_requests_with_what_they_have", "[engine]") {
  const TinyFile file(plain_model());
  const auto model = file.load(roomy());
  TestEnv env;
  TestEngine engine(*model, small_steps(1), {}, env, {}, nullptr);
  GenerationRequest late = ask(some_ids(10), 60);
  late.finish_by_ns = 1'000;
  GenerationRequest never = ask(some_ids(11), 5);
  never.start_by_ns = 500;
  const auto running = engine.submit(late).value().id, waiting = engine.submit(never).value().id;
  Results results;
  for (int i = 0; i < 5; ++i) results.take(engine.step());
  env.time_ns = 600;
  results.take(engine.step());
  CHECK(results.of(waiting).answers.front().finish == FinishReason::kDeadline);
  CHECK(results.of(waiting).answers.front().ids.empty());
  env.time_ns = 2'000;
  while (engine.num_requests() > 0) results.take(engine.step());
  results.take(engine.step());
  CHECK(results.of(running).answers.front().finish == FinishReason::kDeadline);
  CHECK(results.of(running).answers.front().ids.size() == 6);
  check_empty(engine);
}

}  // namespace kvpage_test
