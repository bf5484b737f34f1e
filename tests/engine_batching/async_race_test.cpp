/// \file The threads of AsyncEngine and its clients, over an engine that is nothing but bookkeeping: for the thread sanitizer.
#include "engine/async_engine.hpp"
#include "support/catch.hpp"

#include <atomic>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

namespace kvpage_test {
namespace {

using namespace kvpage::engine;
using kvpage::FinishReason;
using kvpage::RequestId;

/// Gives each request the tokens 0, 1, 2 ... up to max_tokens, one per step; refuses empty prompts.
class CountingEngine {
 public:
  int throws_in = -1;  ///< steps until one throws; -1 = none does

  kvpage::Expected<kvpage::Ticket, kvpage::Refusal> submit(const GenerationRequest& request) {
    if (request.max_tokens < 0) throw std::bad_alloc();
    if (request.prompt_ids.empty()) return kvpage::Unexpected{kvpage::Refusal{.kind = kvpage::RefusalKind::kEmptyPrompt}};
    open_[next_].request = RequestId{next_};
    open_[next_].answers.resize(1);
    limits_[next_] = request.max_tokens;
    return kvpage::Ticket{.id = RequestId{next_++}, .max_new_tokens = request.max_tokens};
  }
  bool cancel(RequestId id) {
    const auto found = limits_.find(id.value);
    if (found == limits_.end()) return false;
    found->second = 0;
    return true;
  }
  const StepOutput& step() {
    if (throws_in == 0) throw std::runtime_error("planted");
    if (throws_in > 0) --throws_in;
    output_ = StepOutput{};
    for (auto at = open_.begin(); at != open_.end();) {
      Answer& answer = at->second.answers.front();
      const auto limit = limits_.at(at->first);
      if (static_cast<std::int64_t>(answer.ids.size()) < limit) {
        answer.ids.push_back(static_cast<kvpage::TokenId>(answer.ids.size()));
        output_.tokens.emplace_back();
        output_.tokens.back().request = RequestId{at->first}, output_.tokens.back().token = answer.ids.back();
      }
      if (static_cast<std::int64_t>(answer.ids.size()) < limit) {
        ++at;
        continue;
      }
      answer.finish = limit == 0 ? FinishReason::kCancelled : FinishReason::kLength;
      output_.finished.push_back(at->second);
      limits_.erase(at->first);
      at = open_.erase(at);
    }
    return output_;
  }

 private:
  std::map<std::uint64_t, GenerationResult> open_;
  std::map<std::uint64_t, std::int64_t> limits_;
  StepOutput output_;
  std::uint64_t next_ = 1;
};

GenerationRequest wish(std::int64_t max_tokens) {
  GenerationRequest request;
  request.prompt_ids = {1};
  request.max_tokens = max_tokens;
  return request;
}

/// A client that reads to the end, is refused, goes away in the middle, or cancels and waits. True = everything was as it should be.
bool behave(AsyncEngine<CountingEngine>& async, int turn) {
  if (turn % 4 == 1) return !async.submit({});
  auto stream = async.submit(wish(20 + turn));
  if (!stream) return false;
  if (turn % 4 == 2) return stream->next().has_value();
  if (turn % 4 == 3) {
    stream->cancel();
    return !stream->wait().answers.empty();
  }
  kvpage::TokenId next = 0;
  while (auto token = stream->next()) {
    if (token->token != next++) return false;
  }
  return stream->overflowed() || next == static_cast<kvpage::TokenId>(20 + turn);
}

}  // namespace

TEST_CASE("engine.async.threads_share_nothing_unguarded", "[engine][race]") {
  CountingEngine engine;
  std::atomic<int> right = 0;
  constexpr int kClients = 4, kTurns = 60;
  {
    AsyncEngine<CountingEngine> async(engine, 16);
    std::vector<std::thread> clients;
    for (int c = 0; c < kClients; ++c) {
      clients.emplace_back([&, c] {
        for (int turn = 0; turn < kTurns; ++turn) right += behave(async, turn + c) ? 1 : 0;
      });
    }
    for (std::thread& client : clients) client.join();
  }
  CHECK(right == kClients * kTurns);
}

TEST_CASE("engine.async.exceptions_reach_those_whom_they_concern", "[engine][race]") {
  CountingEngine engine;
  engine.throws_in = 50;
  AsyncEngine<CountingEngine> async(engine, 1000);
  CHECK_THROWS_AS(async.submit(wish(-1)), std::bad_alloc);
  auto stream = async.submit(wish(1'000'000));
  REQUIRE(stream);
  std::int64_t tokens = 0;
  while (stream->next()) ++tokens;
  CHECK(tokens > 0);
  CHECK_FALSE(stream->status().ok());
  CHECK(stream->result().answers.front().finish == FinishReason::kError);
  const auto refused = async.submit(wish(1));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == kvpage::RefusalKind::kShuttingDown);
}

TEST_CASE("engine.async.the_end_races_with_clients_that_come", "[engine][race]") {
  for (int round = 0; round < 20; ++round) {
    CountingEngine engine;
    std::atomic<int> cancelled = 0;
    auto async = std::make_unique<AsyncEngine<CountingEngine>>(engine, 16);
    auto first = async->submit(wish(1'000'000'000));
    REQUIRE(first);
    std::thread client([&] {
      while (first->next()) {
      }
      cancelled += first->result().answers.front().finish == FinishReason::kCancelled ? 1 : 0;
    });
    async.reset();
    client.join();
    CHECK(cancelled == 1);
  }
}

}  // namespace kvpage_test
