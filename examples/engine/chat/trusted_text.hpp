/// \file TrustedText: a string that remembers which of its bytes the template wrote and which came from messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kvpage::engine {

/// Bytes [begin, end) of a text, written by the template (its literals, bos and eos, known roles): special tokens count
/// only here.
struct TrustedSpan {
  std::size_t begin = 0;
  std::size_t end = 0;
  friend bool operator==(const TrustedSpan&, const TrustedSpan&) = default;
};

namespace chat {

/// UTF-8 bytes plus their trusted spans (sorted, disjoint, never adjacent). Cutting and joining keep every byte's trust.
/// Errors: appending beyond kMaxOutputBytes fails with kLimit.
class TrustedText {
 public:
  TrustedText() = default;
  static TrustedText untrusted(std::string bytes);
  static TrustedText trusted(std::string bytes);

  const std::string& bytes() const noexcept { return bytes_; }
  const std::vector<TrustedSpan>& spans() const noexcept { return spans_; }
  std::size_t size() const noexcept { return bytes_.size(); }
  bool empty() const noexcept { return bytes_.empty(); }
  /// True when every byte is trusted: then a text computed from it alone is trusted too.
  bool all_trusted() const noexcept { return !empty() && spans_.size() == 1 && spans_[0] == TrustedSpan{0, size()}; }

  void append(const TrustedText& other) { append_slice(other, 0, other.size()); }
  /// Requires: begin <= end <= other.size(), &other != this.
  void append_slice(const TrustedText& other, std::size_t begin, std::size_t end);
  void append_untrusted(std::string_view bytes);
  /// `bytes` in the place of the byte of `other` at `at`, with its trust.
  void append_instead(const TrustedText& other, std::size_t at, std::string_view bytes);

  /// Jinja's Markup, the result of `safe`: what it is joined with is escaped. Cutting and joining forget it.
  bool is_markup() const noexcept { return markup_; }
  TrustedText& set_markup(bool markup) { return markup_ = markup, *this; }

  /// Bytes [begin, end). Requires: begin <= end <= size(). Cost: linear in the slice, logarithmic in the spans.
  TrustedText slice(std::size_t begin, std::size_t end) const;

 private:
  void require_room(std::size_t extra) const;

  std::string bytes_;
  std::vector<TrustedSpan> spans_;
  bool markup_ = false;
};

}  // namespace chat
}  // namespace kvpage::engine
