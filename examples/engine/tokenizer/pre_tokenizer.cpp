/// \file word_end: one hand-written scanner for each pattern.
#include "engine/tokenizer/pre_tokenizer.hpp"

#include "engine/text/utf8.hpp"
#include "engine/tokenizer/unicode_class.hpp"

#include <kvpage/base/assert.hpp>

namespace kvpage::engine {
namespace {

/// One character: its class and its length in bytes.
struct ScannedChar {
  CharClass char_class = CharClass::kOther;
  std::size_t length = 1;
};

constexpr auto kAsciiClasses = [] {
  std::array<CharClass, 128> table{};
  std::size_t at = 0;
  for (const std::uint32_t run : kUnicodeClassRuns) {
    for (std::uint32_t i = 0; i < run / 4 && at < table.size(); ++i) table[at++] = static_cast<CharClass>(run % 4);
  }
  return table;
}();

class Scanner {
 public:
  explicit Scanner(std::string_view text) noexcept : text_(text), classes_(char_classes()) {}

  std::size_t size() const noexcept { return text_.size(); }
  bool is(std::size_t at, char c) const noexcept { return at < text_.size() && text_[at] == c; }
  bool is_newline(std::size_t at) const noexcept { return is(at, '\n') || is(at, '\r'); }

  /// Requires: at < size().
  ScannedChar at(std::size_t at) const noexcept {
    const auto byte = static_cast<unsigned char>(text_[at]);
    if (byte < 0x80) return {kAsciiClasses[byte], 1};
    const Utf8Char c = decode_utf8(text_, at);
    return {c.valid() ? classes_[c.code_point] : CharClass::kOther, c.length};
  }

  /// The end of the characters of one class that begin at `at`; at most `most` of them.
  std::size_t run_end(std::size_t at, CharClass wanted, std::size_t most = std::string_view::npos) const noexcept {
    while (at < size() && most-- > 0) {
      const ScannedChar c = this->at(at);
      if (c.char_class != wanted) break;
      at += c.length;
    }
    return at;
  }

  std::size_t newlines_end(std::size_t at) const noexcept {
    while (is_newline(at)) ++at;
    return at;
  }

  /// The length of 's 't 'm 'd 're 've 'll at an apostrophe, or 0.
  std::size_t contraction_length(std::size_t at, bool any_case) const noexcept {
    if (!is(at, '\'')) return 0;
    const auto letter = [&](std::size_t i) -> char {
      if (i >= size()) return 0;
      const char c = text_[i];
      return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    };
    const char first = letter(at + 1);
    const char second = letter(at + 2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
    const bool pair = ((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l');
    return pair ? 3 : 0;
  }

  /// \s+(?!\S)|\s+ on the whitespace [begin, end): the last character is left to the word behind it, unless it is alone.
  /// `text_ends` is true if nothing stands behind it.
  std::size_t leave_last_space(std::size_t begin, std::size_t end, bool text_ends) const noexcept {
    if (text_ends) return end;
    std::size_t last = end - 1;
    while (last > begin && (static_cast<unsigned char>(text_[last]) & 0xC0) == 0x80) --last;
    return last > begin ? last : end;
  }

 private:
  std::string_view text_;
  const CharClassTable& classes_;
};

/// With `digits_end_text` a digit is a word, and the text before it ends there.
std::size_t gpt2_word_end(const Scanner& scan, std::size_t begin, bool digits_end_text) {
  const ScannedChar first = scan.at(begin);
  if (digits_end_text && first.char_class == CharClass::kNumber) return begin + first.length;
  if (const std::size_t length = scan.contraction_length(begin, false); length > 0) return begin + length;
  if (first.char_class != CharClass::kSpace) return scan.run_end(begin, first.char_class);

  const auto ends_text = [&](const std::size_t at) {
    return at == scan.size() || (digits_end_text && scan.at(at).char_class == CharClass::kNumber);
  };
  if (scan.is(begin, ' ') && !ends_text(begin + 1)) {
    const CharClass next = scan.at(begin + 1).char_class;
    if (next != CharClass::kSpace) return scan.run_end(begin + 1, next);
  }
  const std::size_t end = scan.run_end(begin, CharClass::kSpace);
  return scan.leave_last_space(begin, end, ends_text(end));
}

std::size_t joining_word_end(const Scanner& scan, std::size_t begin, std::size_t most_digits) {
  if (const std::size_t length = scan.contraction_length(begin, true); length > 0) return begin + length;
  const ScannedChar first = scan.at(begin);
  const std::size_t second = begin + first.length;
  if (first.char_class == CharClass::kLetter) return scan.run_end(begin, CharClass::kLetter);
  if (first.char_class == CharClass::kNumber) return scan.run_end(begin, CharClass::kNumber, most_digits);
  if (second < scan.size() && !scan.is_newline(begin)) {
    const CharClass next = scan.at(second).char_class;
    if (next == CharClass::kLetter) return scan.run_end(second, CharClass::kLetter);
    if (next == CharClass::kOther && scan.is(begin, ' ')) return scan.newlines_end(scan.run_end(second, CharClass::kOther));
  }
  if (first.char_class == CharClass::kOther) return scan.newlines_end(scan.run_end(begin, CharClass::kOther));

  const std::size_t end = scan.run_end(begin, CharClass::kSpace);
  std::size_t after_newline = end;
  while (after_newline > begin && !scan.is_newline(after_newline - 1)) --after_newline;
  if (after_newline > begin) return after_newline;
  return scan.leave_last_space(begin, end, end == scan.size());
}

}  // namespace

std::size_t word_end(PreTokenizer kind, std::string_view text, std::size_t begin) {
  KVPAGE_ASSERT(begin < text.size(), "a word begins inside the text");
  const Scanner scan{text};
  switch (kind) {
    case PreTokenizer::kGpt2:
      return gpt2_word_end(scan, begin, false);
    case PreTokenizer::kSmol:
      return gpt2_word_end(scan, begin, true);
    case PreTokenizer::kDigitTriples:
      return joining_word_end(scan, begin, 3);
    case PreTokenizer::kSingleDigits:
      return joining_word_end(scan, begin, 1);
  }
  KVPAGE_ASSERT(false, "the kind of pre-tokenizer is one of the enum");
  return text.size();
}

}  // namespace kvpage::engine
