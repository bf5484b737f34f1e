/// \file Case maps and properties of characters, looked up in generated tables.
#include "engine/chat/unicode_text.hpp"

#include "engine/chat/unicode_case_maps.hpp"
#include "engine/chat/unicode_properties.hpp"
#include "engine/chat/utf8.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <vector>

namespace kvpage::engine::chat {
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
