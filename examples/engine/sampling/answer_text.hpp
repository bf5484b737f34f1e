/// \file AnswerText: the text of an answer while its tokens come, up to the first stop string.
#pragma once

#include "engine/tokenizer/stop_matcher.hpp"
#include "engine/tokenizer/stream_detokenizer.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace kvpage::engine {

/// Tokens become text here, and a complete stop string ends it. Without a tokenizer it stays empty.
/// A stop string that is complete before `min_tokens` tokens is text like any other.
/// Copies of equal length take no memory: a beam copies its answers in every step.
class AnswerText {
 public:
  AnswerText() = default;
  /// `stops` null = no stop strings. Requires: both outlive this object.
  AnswerText(const Tokenizer* tokenizer, const StopMatcher* stops, std::int64_t min_tokens)
      : tokenizer_(tokenizer), stops_(stops), min_tokens_(min_tokens) {
    if (tokenizer != nullptr) tokens_.emplace(*tokenizer, DecodeOptions{.strip_space_prefix = false});
    if (stops != nullptr) matcher_.emplace(*stops);
  }

  void reserve(std::size_t bytes) { text_.reserve(bytes); }
  /// Appends a token. Requires: not stopped.
  void push(TokenId id) {
    ++num_tokens_;
    if (tokens_) append(tokens_->push(id));
  }
  /// Whether `id`, pushed now, would complete a stop string. Requires: not stopped.
  [[nodiscard]] bool would_stop(TokenId id) const {
    if (!matcher_ || num_tokens_ + 1 < min_tokens_) return false;
    StreamDetokenizer tokens = *tokens_;
    StopMatcher matcher = *matcher_;
    matcher.push(tokens.push(id));
    return matcher.stopped();
  }
  /// A stop string is complete: the text ends before it.
  [[nodiscard]] bool stopped() const noexcept { return matcher_ && matcher_->stopped(); }

  /// What may be shown and was not yet; the view is valid until something is pushed.
  [[nodiscard]] std::string_view new_text() const noexcept { return std::string_view(text_).substr(0, certain_).substr(shown_); }
  /// new_text was shown.
  void mark_shown() noexcept { shown_ = certain_; }

  /// The answer has ended: what was held back is text. All or nothing; a second call changes nothing.
  void finish() {
    if (stopped() || !tokens_ || finished_) return;
    AnswerText whole = *this;
    whole.append(whole.tokens_->finish());
    if (!whole.stopped()) whole.certain_ = whole.text_.size();
    whole.finished_ = true;
    *this = std::move(whole);
  }
  /// Requires: finish.
  [[nodiscard]] std::string_view text() const noexcept { return std::string_view(text_).substr(0, certain_); }

  /// The text of `ids` instead: some token was pushed that the answer did not get. What was shown stays shown.
  void rebuild(std::span<const TokenId> ids) {
    AnswerText fresh(tokenizer_, stops_, min_tokens_);
    for (const TokenId id : ids) fresh.push(id);
    fresh.shown_ = shown_;
    *this = std::move(fresh);
  }

 private:
  void append(std::string_view piece) {
    text_.append(piece);
    if (!matcher_) {
      certain_ = text_.size();
      return;
    }
    certain_ += matcher_->push(piece).size();
    if (!matcher_->stopped() || num_tokens_ >= min_tokens_) return;
    certain_ = text_.size();
    *matcher_ = *stops_;
  }

  std::optional<StreamDetokenizer> tokens_;
  std::optional<StopMatcher> matcher_;
  const Tokenizer* tokenizer_ = nullptr;
  const StopMatcher* stops_ = nullptr;
  std::int64_t min_tokens_ = 0;
  std::int64_t num_tokens_ = 0;
  std::string text_;          ///< of all tokens
  std::size_t certain_ = 0;   ///< bytes of it that are before any stop string
  std::size_t shown_ = 0;
  bool finished_ = false;
};

}  // namespace kvpage::engine
