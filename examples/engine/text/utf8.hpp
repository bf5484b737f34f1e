/// \file UTF-8 to code points and back, one character at a time, and Utf8Stream: bytes in pieces of any size to text of whole characters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvpage::engine {

/// U+FFFD, which stands for each maximal invalid part of a text.
inline constexpr std::string_view kReplacementChar = "\xEF\xBF\xBD";

/// What stands at one place of a byte string.
struct Utf8Char {
  enum class State : std::uint8_t {
    kValid,
    kInvalid,    ///< no continuation could make these `length` bytes a character
    kTruncated,  ///< the text ends inside a character
  };

  std::uint32_t code_point = 0;  ///< only if valid
  std::uint32_t length = 1;      ///< bytes of the character, or of the maximal invalid part
  State state = State::kInvalid;

  constexpr bool valid() const noexcept { return state == State::kValid; }
};

/// The character that begins at text[begin]. Requires: begin < text.size().
/// Source: Unicode 15, table 3-7 (well-formed sequences) and section 3.9 (maximal subparts).
constexpr Utf8Char decode_utf8(std::string_view text, std::size_t begin) noexcept {
  const auto byte_at = [&](std::size_t i) { return std::uint32_t{static_cast<unsigned char>(text[i])}; };
  const std::uint32_t lead = byte_at(begin);
  if (lead < 0x80) return {lead, 1, Utf8Char::State::kValid};
  if (lead < 0xC2 || lead > 0xF4) return {0, 1, Utf8Char::State::kInvalid};
  const std::uint32_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte alone rules out overlong forms, surrogates and code points above U+10FFFF.
  std::uint32_t lowest = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  std::uint32_t highest = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  std::uint32_t code_point = lead & (0x7Fu >> length);
  for (std::uint32_t i = 1; i < length; ++i) {
    if (begin + i >= text.size()) return {0, i, Utf8Char::State::kTruncated};
    const std::uint32_t byte = byte_at(begin + i);
    if (byte < lowest || byte > highest) return {0, i, Utf8Char::State::kInvalid};
    code_point = code_point << 6 | (byte & 0x3F);
    lowest = 0x80;
    highest = 0xBF;
  }
  return {code_point, length, Utf8Char::State::kValid};
}

/// Where the first byte stands that belongs to no whole character; npos when all do.
constexpr std::size_t find_invalid_utf8(std::string_view text) noexcept {
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    if (!c.valid()) return at;
    at += c.length;
  }
  return std::string_view::npos;
}

/// Appends the bytes of `c`. Requires: c <= U+10FFFF; a surrogate gives the three bytes that decode_utf8 refuses.
inline void append_utf8(std::string& text, std::uint32_t c) {
  const auto put = [&](std::uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) return put(0xC0 | c >> 6), put(0x80 | (c & 0x3F));
  if (c < 0x10000) return put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 0x3F)), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
}

/// Turns a byte string that arrives in pieces into valid UTF-8. At most 3 bytes, the beginning of a character, are held
/// back; each maximal invalid part becomes one U+FFFD.
/// Ensures: the outputs, joined, do not depend on how the bytes were cut into pieces.
class Utf8Stream {
 public:
  /// The text that is certain now; the view is valid until the next call.
  std::string_view push(std::string_view bytes) {
    input_.append(bytes);
    output_.clear();
    std::size_t done = 0;
    while (done < input_.size()) {
      const Utf8Char c = decode_utf8(input_, done);
      if (c.state == Utf8Char::State::kTruncated) break;
      output_.append(c.valid() ? std::string_view(input_).substr(done, c.length) : kReplacementChar);
      done += c.length;
    }
    input_.erase(0, done);
    return output_;
  }

  /// The end of the text: a held beginning of a character becomes U+FFFD. The stream is then as new.
  std::string_view finish() {
    output_.assign(input_.empty() ? std::string_view{} : kReplacementChar);
    input_.clear();
    return output_;
  }

  std::size_t held_bytes() const noexcept { return input_.size(); }

 private:
  std::string input_;
  std::string output_;
};

}  // namespace kvpage::engine
