/// \file Clients on their own threads: each stream is complete and in order; slow, lost and late clients hurt nobody else.
#include "engine/async_engine.hpp"
#include "engine_batching/engine_fixture.hpp"

#include <atomic>
#include <future>
#include <thread>

namespace kvpage_test {
namespace {

using namespace kvpage::engine;
using kvpage::FinishReason;

using RealEngine = Engine<kvpage::NamedPolicies, SystemEnv>;
using Async = AsyncEngine<RealEngine>;

ModelConfig roomy() {
  ModelConfig config = tiny_config("cpu", "f16");
  config.pool_tokens = 112, config.num_seqs = 8;
  return config;
}

}  // namespace

TEST_CASE("engine.async.clients_get_their_own_tokens_in_order", "[engine]") {
  const TinyFile file(every_switch());
  const auto model = file.load(roomy());
  constexpr std::size_t kClients = 6, kRequests = 5;
  std::vector<std::vector<GenerationRequest>> requests(kClients);
  std::vector<std::vector<Bits>> want(kClients);
  for (std::size_t c = 0; c < kClients; ++c) {
    for (std::size_t r = 0; r < kRequests; ++r) {
      requests[c].push_back(ask(some_ids(4 + 7 * c + r, static_cast<std::uint32_t>(r + 1)), 6 + static_cast<std::int64_t>(c)));
      want[c].push_back(alone(*model, requests[c].back()));
    }
  }
  SystemEnv env;
  RealEngine engine(*model, small_steps(), {}, env, {}, nullptr);
  std::atomic<int> wrong = 0, right = 0;
  {
    Async async(engine);
    std::vector<std::thread> clients;
    for (std::size_t c = 0; c < kClients; ++c) {
      clients.emplace_back([&, c] {
        for (std::size_t r = 0; r < kRequests; ++r) {
          auto stream = async.submit(requests[c][r]);
          std::vector<TokenId> ids;
          while (auto token = stream->next()) ids.push_back(token->token);
          const bool same = ids == want[c][r].ids && Bits::of(stream->result()) == want[c][r] && stream->status().ok();
          ++(same ? right : wrong);
        }
      });
    }
    for (std::thread& client : clients) client.join();
  }
  CHECK(right == kClients * kRequests);
  CHECK(wrong == 0);
  CHECK(engine.cache().allocator().capacity().used == 0);
}

TEST_CASE("engine.async.refusals_come_back_to_the_client", "[engine]") {
  const TinyFile file(plain_model());
  const auto model = file.load(roomy());
  SystemEnv env;
  RealEngine engine(*model, small_steps(), {}, env, {}, nullptr);
  Async async(engine);
  const auto refused = async.submit(ask({}));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == kvpage::RefusalKind::kEmptyPrompt);
  auto stream = async.submit(ask(some_ids(9), 3));
  REQUIRE(stream);
  CHECK(stream->wait().answers.front().ids.size() == 3);
}

TEST_CASE("engine.async.a_client_that_does_not_read_loses_only_its_own_request", "[engine]") {
  const TinyFile file(plain_model());
  const auto model = file.load(roomy());
  const GenerationRequest request = ask(some_ids(12, 4), 60);
  const Bits want = alone(*model, request);
  SystemEnv env;
  RealEngine engine(*model, small_steps(), {}, env, {}, nullptr);
  Async async(engine, 8);
  auto asleep = async.submit(ask(some_ids(12, 3), 90));
  REQUIRE(asleep);
  auto awake = async.submit(request);
  REQUIRE(awake);
  std::vector<TokenId> ids;
  while (auto token = awake->next()) ids.push_back(token->token);
  const bool complete = !awake->overflowed();  // on a busy machine this thread may have slept too long as well
  if (complete) CHECK(ids == want.ids);
  std::size_t read = 0;
  while (asleep->next()) ++read;
  CHECK(asleep->overflowed());
  CHECK(read == 8);
  CHECK(asleep->result().answers.front().finish == FinishReason::kCancelled);
  CHECK(asleep->result().answers.front().ids.size() >= 9);
}

TEST_CASE("engine.async.a_stream_that_goes_away_cancels_its_request", "[engine]") {
  const TinyFile file(plain_model());
  const auto model = file.load(roomy());
  SystemEnv env;
  RealEngine engine(*model, small_steps(), {}, env, {}, nullptr);
  {
    Async async(engine);
    for (int i = 0; i < 20; ++i) {
      auto stream = async.submit(ask(some_ids(10, static_cast<std::uint32_t>(i + 1)), 90));
      REQUIRE(stream);
      REQUIRE(stream->next());
    }
    // All of them are gone at the latest when a request that came after them has ended.
    auto last = async.submit(ask(some_ids(10, 99), 90));
    REQUIRE(last);
    CHECK(last->wait().answers.front().finish == FinishReason::kLength);
  }
  CHECK(engine.num_requests() == 0);
  CHECK(engine.cache().allocator().capacity().used == 0);
}

TEST_CASE("engine.async.the_end_of_the_engine_ends_every_stream", "[engine]") {
  const TinyFile file(plain_model());
  const auto model = file.load(roomy());
  SystemEnv env;
  RealEngine engine(*model, small_steps(2), {}, env, {}, nullptr);
  std::vector<AnswerStream> streams;
  {
    Async async(engine);
    for (std::uint32_t i = 0; i < 6; ++i) streams.push_back(std::move(*async.submit(ask(some_ids(30, i + 1), 80))));
  }
  for (AnswerStream& stream : streams) {
    const FinishReason finish = stream.wait().answers.front().finish;
    CHECK((finish == FinishReason::kCancelled || finish == FinishReason::kLength));
  }
  CHECK(engine.num_requests() == 0);
}

TEST_CASE("engine.async.a_failure_belongs_to_the_requests_that_were_in_flight", "[engine]") {
  const TinyFile file(plain_model());
  const auto inner = file.load(roomy());
  HookedModel model(*inner);
  std::atomic<int> failures_left = 3;
  std::promise<void> third_failure, other_is_there;
  auto others = other_is_there.get_future();
  model.before_forward = [&](const kvpage::BatchPlan&) {
    if (failures_left <= 0) return kvpage::Status();
    if (--failures_left == 0) {
      third_failure.set_value();
      others.wait();  // the next request is submitted while this step is running
    }
    return kvpage::Status(kvpage::StatusCode::kCapacity, "planted");
  };
  SystemEnv env;
  RealEngine engine(model, small_steps(), {}, env, {}, nullptr);
  Async async(engine);
  auto first = async.submit(ask(some_ids(10), 5));
  REQUIRE(first);
  third_failure.get_future().wait();
  std::thread late([&] {
    auto second = async.submit(ask(some_ids(12), 5));
    REQUIRE(second);
    CHECK(second->wait().answers.front().ids.size() == 5);
    CHECK(second->status().ok());
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // most likely the letter is in the box by now; right either way
  other_is_there.set_value();
  late.join();
  CHECK_FALSE(first->next());
  CHECK(std::string(first->status().message()) == "planted");
}

TEST_CASE("engine.async.a_broken_model_ends_requests_with_its_status_and_later_ones_are_tried", "[engine]") {
  const TinyFile file(plain_model());
  const auto inner = file.load(roomy());
  HookedModel model(*inner);
  std::atomic<bool> broken = true;
  model.before_forward = [&](const kvpage::BatchPlan&) {
    return broken ? kvpage::Status(kvpage::StatusCode::kCapacity, "planted") : kvpage::Status();
  };
  SystemEnv env;
  RealEngine engine(model, small_steps(), {}, env, {}, nullptr);
  Async async(engine);
  auto stream = async.submit(ask(some_ids(10), 5));
  REQUIRE(stream);
  CHECK_FALSE(stream->next());
  CHECK(std::string(stream->status().message()) == "planted");
  broken = false;
  auto later = async.submit(ask(some_ids(10), 5));
  REQUIRE(later);
  CHECK(later->wait().answers.front().ids.size() == 5);
  CHECK(later->status().ok());
}

}  // namespace kvpage_test
