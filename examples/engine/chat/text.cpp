/// \file Texts with trust, their code points and case.
#include "engine/chat/text.hpp"

#include "engine/chat/unicode_tables.hpp"
#include "engine/chat/value.hpp"
#include "engine/text/utf8.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <vector>

namespace kvpage::engine::chat {

TrustedText TrustedText::untrusted(std::string bytes) {
  TrustedText text;
  text.bytes_ = std::move(bytes);
  return text;
}

TrustedText TrustedText::trusted(std::string bytes) {
  TrustedText text = untrusted(std::move(bytes));
  if (!text.empty()) text.spans_.push_back({0, text.size()});
  return text;
}

void TrustedText::require_room(std::size_t extra) const {
  if (size() + extra > kMaxOutputBytes) {
    fail(TemplateErrorKind::kLimit, "makes a text of more than " + std::to_string(kMaxOutputBytes) + " bytes; shorten the conversation");
  }
}

void TrustedText::append_untrusted(std::string_view bytes) {
  require_room(bytes.size());
  bytes_.append(bytes);
}

void TrustedText::append_slice(const TrustedText& other, std::size_t begin, std::size_t end) {
  if (begin == end) return;  // an empty cut inside of a span has no trust to bring
  require_room(end - begin);
  const std::size_t base = size();
  bytes_.append(other.bytes_, begin, end - begin);
  auto span = std::upper_bound(other.spans_.begin(), other.spans_.end(), begin,
                               [](std::size_t at, const TrustedSpan& s) { return at < s.end; });
  for (; span != other.spans_.end() && span->begin < end; ++span) {
    const TrustedSpan moved{std::max(span->begin, begin) - begin + base, std::min(span->end, end) - begin + base};
    if (!spans_.empty() && spans_.back().end == moved.begin) {
      spans_.back().end = moved.end;
    } else {
      spans_.push_back(moved);
    }
  }
}

void TrustedText::append_instead(const TrustedText& other, std::size_t at, std::string_view bytes) {
  const auto span = std::upper_bound(other.spans_.begin(), other.spans_.end(), at,
                                     [](std::size_t byte, const TrustedSpan& s) { return byte < s.end; });
  const bool is_trusted = span != other.spans_.end() && span->begin <= at;
  is_trusted ? append(trusted(std::string{bytes})) : append_untrusted(bytes);
}

TrustedText TrustedText::slice(std::size_t begin, std::size_t end) const {
  TrustedText part;
  part.append_slice(*this, begin, end);
  return part;
}

namespace {

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0u) == 0x80u; }

bool in_range(char32_t value, char32_t low, char32_t high) { return value >= low && value <= high; }

}  // namespace

CodePoint decode_at(std::string_view text, std::size_t at) {
  const Utf8Char c = decode_utf8(text, at);
  return c.valid() ? CodePoint{c.code_point, c.length} : CodePoint{static_cast<unsigned char>(text[at]) | kInvalidByte, 1};
}

CodePoint decode_before(std::string_view text, std::size_t end) {
  for (std::size_t length = 1; length <= 4 && length <= end; ++length) {
    if (is_continuation(text[end - length])) continue;
    const CodePoint found = decode_at(text.substr(0, end), end - length);
    if (found.bytes == length) return found;
    break;
  }
  return {static_cast<unsigned char>(text[end - 1]) | kInvalidByte, 1};
}

void encode_to(std::string& text, char32_t value) {
  if ((value & kInvalidByte) == 0) return append_utf8(text, value);
  text.push_back(static_cast<char>(static_cast<unsigned char>(value & 0xFFu)));
}

std::size_t count_code_points(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size(); at += decode_at(text, at).bytes) ++count;
  return count;
}

std::size_t byte_offset(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += decode_at(text, at).bytes;
  return at;
}

bool is_space(char32_t c) {
  return in_range(c, 0x09, 0x0D) || in_range(c, 0x1C, 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 || in_range(c, 0x2000, 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_line_end(char32_t c) {
  return in_range(c, 0x0A, 0x0D) || in_range(c, 0x1C, 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

namespace {

constexpr char32_t kSigma = 0x3A3, kFinalSigma = 0x3C2;

struct Run {
  char32_t begin;
  unsigned bits;
};

const std::vector<Run>& property_runs() {
  static const std::vector<Run> kRuns = [] {
    std::vector<Run> runs;
    char32_t at = 0;
    for (const std::uint32_t coded : kPropertyRuns) {
      runs.push_back({at, kPropertyClasses[coded % std::size(kPropertyClasses)]});
      at += coded / static_cast<std::uint32_t>(std::size(kPropertyClasses));
    }
    runs.push_back({at, 0});
    return runs;
  }();
  return kRuns;
}

bool append_from(std::string& out, char32_t c, std::span<const CaseRange> ranges, std::span<const CaseText> texts) {
  const auto text = std::lower_bound(texts.begin(), texts.end(), c, [](const CaseText& t, char32_t code) { return t.code < code; });
  if (text != texts.end() && text->code == c) return out += text->text, true;
  // Ranges of stride 2 interleave: look back as far as one can reach.
  const auto behind = std::upper_bound(ranges.begin(), ranges.end(), c, [](char32_t code, const CaseRange& r) { return code < r.first; });
  for (auto at = behind; at != ranges.begin() && behind - at < 3;) {
    --at;
    const std::uint32_t distance = static_cast<std::uint32_t>(c) - at->first;
    if (distance % at->stride != 0 || distance / at->stride >= at->count) continue;
    encode_to(out, static_cast<char32_t>(static_cast<std::int64_t>(c) + at->delta));
    return true;
  }
  return false;
}

/// A sigma is final when a cased character stands before it and none behind, case-ignorable ones aside.
bool is_final_sigma(std::string_view text, std::size_t at, std::size_t after) {
  std::size_t before = at;
  bool cased_before = false;
  while (before > 0) {
    const CodePoint c = decode_before(text, before);
    before -= c.bytes;
    const unsigned bits = properties_of(c.value);
    if ((bits & kIsCaseIgnorable) != 0) continue;
    cased_before = (bits & kIsCased) != 0;
    break;
  }
  if (!cased_before) return false;
  while (after < text.size()) {
    const CodePoint c = decode_at(text, after);
    after += c.bytes;
    const unsigned bits = properties_of(c.value);
    if ((bits & kIsCaseIgnorable) == 0) return (bits & kIsCased) == 0;
  }
  return true;
}

void append_lower(std::string& out, std::string_view text, std::size_t at, const CodePoint& c) {
  if (c.value == kSigma && is_final_sigma(text, at, at + c.bytes)) return encode_to(out, kFinalSigma);
  append_mapped(out, CaseMap::kLower, c.value);
}

template <class Visit>
void for_each_char(std::string_view text, Visit visit) {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode_at(text, at);
    visit(at, c);
    at += c.bytes;
  }
}

enum class CharCase : std::uint8_t { kNone, kUpper, kLower, kTitle };

CharCase case_of(char32_t c) {
  const unsigned bits = properties_of(c);
  if ((bits & kIsUpper) != 0) return CharCase::kUpper;
  if ((bits & kIsLower) != 0) return CharCase::kLower;
  return (bits & kIsCased) != 0 ? CharCase::kTitle : CharCase::kNone;
}

/// At least one character of the wanted case, and none of another one.
bool has_only(std::string_view text, CharCase wanted) {
  bool found = false, other = false;
  for_each_char(text, [&](std::size_t, const CodePoint& c) {
    const CharCase held = case_of(c.value);
    found = found || held == wanted;
    other = other || (held != wanted && held != CharCase::kNone);
  });
  return found && !other;
}

}  // namespace

unsigned properties_of(char32_t value) {
  if ((value & kInvalidByte) != 0) return 0;
  const auto& runs = property_runs();
  const auto behind = std::upper_bound(runs.begin(), runs.end(), value, [](char32_t c, const Run& run) { return c < run.begin; });
  return (behind - 1)->bits;
}

void append_mapped(std::string& out, CaseMap map, char32_t c) {
  if ((c & kInvalidByte) == 0) {
    if (map == CaseMap::kTitle && append_from(out, c, kTitleRanges, kTitleTexts)) return;
    if (map == CaseMap::kFold && append_from(out, c, kFoldRanges, kFoldTexts)) return;
    const bool lower = map == CaseMap::kLower || map == CaseMap::kFold;
    if (lower ? append_from(out, c, kLowerRanges, kLowerTexts) : append_from(out, c, kUpperRanges, kUpperTexts)) return;
  }
  encode_to(out, c);
}

std::string mapped(std::string_view text, CaseMap map) {
  std::string out;
  for_each_char(text, [&](std::size_t at, const CodePoint& c) {
    map == CaseMap::kLower ? append_lower(out, text, at, c) : append_mapped(out, map, c.value);
  });
  return out;
}

std::string title_cased(std::string_view text) {
  std::string out;
  bool inside = false;
  for_each_char(text, [&](std::size_t at, const CodePoint& c) {
    inside ? append_lower(out, text, at, c) : append_mapped(out, CaseMap::kTitle, c.value);
    inside = has_property(c.value, kIsCased);
  });
  return out;
}

std::string capitalized(std::string_view text) {
  std::string out;
  for_each_char(text, [&](std::size_t at, const CodePoint& c) {
    at == 0 ? append_mapped(out, CaseMap::kTitle, c.value) : append_lower(out, text, at, c);
  });
  return out;
}

std::string case_swapped(std::string_view text) {
  std::string out;
  for_each_char(text, [&](std::size_t at, const CodePoint& c) {
    switch (case_of(c.value)) {
      case CharCase::kUpper: return append_lower(out, text, at, c);
      case CharCase::kLower: return append_mapped(out, CaseMap::kUpper, c.value);
      default: return encode_to(out, c.value);
    }
  });
  return out;
}

bool is_upper_text(std::string_view text) { return has_only(text, CharCase::kUpper); }
bool is_lower_text(std::string_view text) { return has_only(text, CharCase::kLower); }

bool is_title_text(std::string_view text) {
  bool inside = false, found = false, wrong = false;
  for_each_char(text, [&](std::size_t, const CodePoint& c) {
    const CharCase held = case_of(c.value);
    wrong = wrong || (held != CharCase::kNone && (held == CharCase::kLower) != inside);
    inside = held != CharCase::kNone;
    found = found || inside;
  });
  return found && !wrong;
}

int digit_of(char32_t value) {
  const auto& runs = property_runs();
  const auto behind = std::upper_bound(runs.begin(), runs.end(), value, [](char32_t c, const Run& run) { return c < run.begin; });
  return static_cast<int>((value - (behind - 1)->begin) % 10);  // decimal digits stand in tens, from 0 on
}

}  // namespace kvpage::engine::chat
