/// \file AnswerStream: the client's end of a request that an AsyncEngine works on, and the bounded outbox behind it.
#pragma once

#include "engine/sampling/step_output.hpp"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

namespace kvpage::engine {

/// Tokens on their way from the engine's thread to one client. Threads: any.
class Outbox {
 public:
  explicit Outbox(std::size_t max_tokens) : max_tokens_(max_tokens), result_(failed_result()) {}

  /// False when the client has not read for so long that the box is full, or when there is no memory for the token (`status` says so).
  /// It is lost then, and the request should be cancelled.
  bool push(const TokenOutput& token) {
    const std::lock_guard lock(mutex_);
    if (tokens_.size() >= max_tokens_) {
      overflowed_ = true;
      return false;
    }
    try {
      tokens_.push_back(token);
    } catch (const std::bad_alloc&) {
      status_ = kNoMemory;
      return false;
    }
    changed_.notify_one();
    return true;
  }
  /// The model failed under this request; its result is still to come.
  void fail(Status status) {
    const std::lock_guard lock(mutex_);
    status_ = status;
  }
  /// The last thing that is put in. A result for which there is no memory becomes one without tokens that ended with kError.
  void close(const GenerationResult& result) {
    const std::lock_guard lock(mutex_);
    try {
      GenerationResult copy = result;
      result_ = std::move(copy);
    } catch (const std::bad_alloc&) {
      status_ = kNoMemory;
    }
    close_box(result.request);
  }
  /// The last thing that is put in when there is no result: no tokens, and kError. Takes no memory.
  void close_failed(RequestId id, Status status) {
    const std::lock_guard lock(mutex_);
    status_ = status;
    close_box(id);
  }

  std::optional<TokenOutput> pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !tokens_.empty() || closed_; });
    if (tokens_.empty()) return std::nullopt;
    TokenOutput token = std::move(tokens_.front());
    tokens_.pop_front();
    return token;
  }

  /// Requires: pop has returned nothing, after which no other thread writes.
  [[nodiscard]] const GenerationResult& result() const { return result_; }
  [[nodiscard]] Status status() const { return status_; }
  [[nodiscard]] bool overflowed() const {
    const std::lock_guard lock(mutex_);
    return overflowed_;
  }

  void abandon() noexcept { abandoned_ = true; }
  [[nodiscard]] bool abandoned() const noexcept { return abandoned_; }

 private:
  static constexpr Status kNoMemory{StatusCode::kOutOfMemory, "there was no memory for what the answer gave"};

  static GenerationResult failed_result() {
    GenerationResult result;
    result.answers.resize(1);
    result.answers.front().finish = FinishReason::kError;
    return result;
  }
  void close_box(RequestId id) {
    result_.request = id;
    closed_ = true;
    changed_.notify_one();
  }

  const std::size_t max_tokens_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<TokenOutput> tokens_;
  GenerationResult result_;  ///< until it is closed, what it is closed with when nothing else can be
  bool closed_ = false;
  Status status_{};
  bool overflowed_ = false;
  std::atomic<bool> abandoned_ = false;
};

/// Reads one request's tokens as they come. A stream that goes away cancels its request. Threads: one reader.
class AnswerStream {
 public:
  AnswerStream(const Ticket& ticket, std::shared_ptr<Outbox> outbox) : ticket_(ticket), outbox_(std::move(outbox)) {}
  AnswerStream(AnswerStream&&) = default;
  AnswerStream& operator=(AnswerStream&& other) noexcept {
    cancel();
    ticket_ = other.ticket_, outbox_ = std::move(other.outbox_);
    return *this;
  }
  ~AnswerStream() { cancel(); }

  [[nodiscard]] const Ticket& ticket() const noexcept { return ticket_; }

  /// Waits for the next token; nothing = the request has ended.
  std::optional<TokenOutput> next() { return outbox_->pop(); }
  /// Skips what is still to come. Returns the result when the request has ended.
  const GenerationResult& wait() {
    while (next()) {
    }
    return outbox_->result();
  }
  /// Requires: next() has returned nothing.
  [[nodiscard]] const GenerationResult& result() const { return outbox_->result(); }
  /// Not ok: the model failed, or memory was missing, and the result is what there was until then. Requires: next() has returned nothing.
  [[nodiscard]] Status status() const { return outbox_->status(); }
  /// The client read too slowly: the request was cancelled and tokens are missing from the stream; the result has them.
  [[nodiscard]] bool overflowed() const { return outbox_->overflowed(); }

  /// Asks for the end of the request. What it has until then is its result.
  void cancel() noexcept {
    if (outbox_) outbox_->abandon();
  }

 private:
  Ticket ticket_;
  std::shared_ptr<Outbox> outbox_;
};

}  // namespace kvpage::engine
