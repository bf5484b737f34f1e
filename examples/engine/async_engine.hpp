/// \file AsyncEngine: an Engine on a thread of its own; clients on any thread submit requests and read streams.
#pragma once

#include "engine/answer_stream.hpp"
#include "engine/sampling/generation_request.hpp"

#include <kvpage/base/expected.hpp>

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace kvpage::engine {

/// ```cpp
/// engine::AsyncEngine async(engine);
/// auto stream = async.submit({.prompt_ids = ids, .max_tokens = 64});  // or a Refusal; waits at most for the step that is running
/// while (auto token = stream->next()) std::cout << token->text;
/// ```
///
/// The thread sleeps when nothing is in flight. A client that reads too slowly for its outbox loses its request, nobody else waits for it.
/// When the model fails SchedulerConfig::max_aborts times in a row, all requests in flight end with that Status; later ones are tried.
/// Errors: what `submit` of the engine throws (memory) reaches the client that asked; memory that a client's own stream lacks ends its
/// request alone. If a step throws, all streams end with kError and requests are refused from then on.
/// Requires: the engine outlives it and is used by nobody else meanwhile. Threads: any.
template <class EngineType>
class AsyncEngine {
 public:
  /// `max_outbox_tokens`: tokens that a stream may be behind.
  explicit AsyncEngine(EngineType& engine, std::size_t max_outbox_tokens = 4096)
      : engine_(engine), max_outbox_tokens_(max_outbox_tokens), thread_([this] { run(); }) {}
  AsyncEngine(const AsyncEngine&) = delete;
  AsyncEngine& operator=(const AsyncEngine&) = delete;
  /// Cancels what is in flight; its streams end.
  ~AsyncEngine() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  [[nodiscard]] Expected<AnswerStream, Refusal> submit(GenerationRequest request) {
    std::promise<Expected<AnswerStream, Refusal>> answer;
    auto future = answer.get_future();
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return shutting_down();
      mailbox_.push_back({std::move(request), std::move(answer)});
    }
    changed_.notify_one();
    return future.get();
  }

 private:
  struct Letter {
    GenerationRequest request;
    std::promise<Expected<AnswerStream, Refusal>> answer;
  };

  static Unexpected<Refusal> shutting_down() {
    return Unexpected{Refusal{.kind = RefusalKind::kShuttingDown, .value = 1, .limit = 0, .unit = "requests"}};
  }

  void run() {
    try {
      while (open_mail()) {
        cancel_abandoned();
        deliver(engine_.step());
      }
      for (const auto& [id, outbox] : streams_) engine_.cancel(RequestId{id});
      while (!streams_.empty()) deliver(engine_.step());
    } catch (...) {
      end_everything();
    }
  }

  /// A step threw: the engine is not touched again.
  void end_everything() {
    std::vector<Letter> letters;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      letters.swap(mailbox_);
    }
    refuse(letters);
    for (const auto& [id, outbox] : streams_) {
      outbox->close_failed(RequestId{id}, {StatusCode::kDeviceError, "a step of the engine threw an exception"});
    }
    streams_.clear();
  }

  /// Waits while there is nothing to do. False: this is the end.
  bool open_mail() {
    std::vector<Letter> letters;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || !mailbox_.empty() || !streams_.empty(); });
      letters.swap(mailbox_);
      if (stopping_) {
        lock.unlock();
        refuse(letters);
        return false;
      }
    }
    for (Letter& letter : letters) accept(letter);
    return true;
  }

  static void refuse(std::vector<Letter>& letters) {
    for (Letter& letter : letters) letter.answer.set_value(shutting_down());
  }

  void accept(Letter& letter) try {
    letter.answer.set_value(open_stream(letter.request));
  } catch (...) {
    letter.answer.set_exception(std::current_exception());
  }

  /// A request without a stream would run for nobody: it is not accepted, or cancelled.
  Expected<AnswerStream, Refusal> open_stream(const GenerationRequest& request) {
    auto outbox = std::make_shared<Outbox>(max_outbox_tokens_);
    const auto ticket = engine_.submit(request);
    if (!ticket) return Unexpected{ticket.error()};
    try {
      streams_.emplace(ticket->id.value, outbox);
    } catch (...) {
      engine_.cancel(ticket->id);
      throw;
    }
    return AnswerStream(*ticket, std::move(outbox));
  }

  void cancel_abandoned() {
    for (const auto& [id, outbox] : streams_) {
      if (outbox->abandoned()) engine_.cancel(RequestId{id});
    }
  }

  void deliver(const StepOutput& output) {
    for (const TokenOutput& token : output.tokens) {
      const auto found = streams_.find(token.request.value);
      if (found != streams_.end() && !found->second->push(token)) engine_.cancel(token.request);
    }
    for (const auto& [id, outbox] : streams_) {
      if (!output.gave_up) break;
      outbox->fail(output.status);
      engine_.cancel(RequestId{id});
    }
    for (const GenerationResult& result : output.finished) {
      const auto found = streams_.find(result.request.value);
      if (found == streams_.end()) continue;
      found->second->close(result);
      streams_.erase(found);
    }
  }

  EngineType& engine_;
  const std::size_t max_outbox_tokens_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Letter> mailbox_;  // under mutex_
  bool stopping_ = false;        // under mutex_
  // Of the engine's thread:
  std::unordered_map<std::uint64_t, std::shared_ptr<Outbox>> streams_;
  std::thread thread_;  // last: it starts when everything else is there
};

}  // namespace kvpage::engine
