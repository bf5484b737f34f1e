/// \file Operations of Python's str on TrustedText.
#include "engine/chat/text_ops.hpp"

#include "engine/chat/operators.hpp"
#include "engine/chat/utf8.hpp"

#include <algorithm>

namespace kvpage::engine::chat {
namespace {

constexpr auto kNpos = std::string_view::npos;
constexpr std::size_t kCharCost = 16;  // in bytes: a character is looked up in tables

std::vector<TrustedText> split_blank(const TrustedText& text, std::int64_t max_splits) {
  std::vector<TrustedText> parts;
  const std::string& bytes = text.bytes();
  const auto skip = [&](std::size_t at, bool spaces) {
    while (at < bytes.size() && is_space(decode_at(bytes, at).value) == spaces) at += decode_at(bytes, at).bytes;
    return at;
  };
  for (std::size_t begin = skip(0, true); begin < bytes.size();) {
    const bool last = max_splits >= 0 && static_cast<std::int64_t>(parts.size()) == max_splits;
    const std::size_t end = last ? bytes.size() : skip(begin, false);
    parts.push_back(text.slice(begin, end));
    begin = skip(end, true);
  }
  return parts;
}

std::vector<TrustedText> split_blank_from_right(Budget& budget, const TrustedText& text, std::int64_t max_splits) {
  std::vector<TrustedText> parts;
  const std::string& bytes = text.bytes();
  const auto skip = [&](std::size_t at, bool spaces) {
    while (at > 0 && is_space(decode_before(bytes, at).value) == spaces) at -= decode_before(bytes, at).bytes;
    return at;
  };
  for (std::size_t end = skip(bytes.size(), true); end > 0;) {
    budget.charge(1);
    const bool last = max_splits >= 0 && static_cast<std::int64_t>(parts.size()) == max_splits;
    const std::size_t begin = last ? 0 : skip(end, false);
    parts.push_back(text.slice(begin, end));
    end = skip(begin, true);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

/// Where `needle` stands in `text`, left to right, without overlaps.
std::vector<std::size_t> occurrences(Budget& budget, std::string_view text, std::string_view needle, std::int64_t max_count) {
  std::vector<std::size_t> found;
  for (std::size_t at = 0; max_count < 0 || static_cast<std::int64_t>(found.size()) < max_count; at = found.back() + needle.size()) {
    const std::size_t next = find_bytes(budget, text, needle, at);
    if (next == kNpos) break;
    found.push_back(next);
  }
  return found;
}

/// The same from right to left: searches the mirrored text, so that it stays linear.
std::vector<std::size_t> occurrences_from_right(Budget& budget, std::string_view text, std::string_view needle, std::int64_t max_count) {
  const std::string mirrored{text.rbegin(), text.rend()}, mirrored_needle{needle.rbegin(), needle.rend()};
  std::vector<std::size_t> found = occurrences(budget, mirrored, mirrored_needle, max_count);
  for (std::size_t& at : found) at = text.size() - at - needle.size();
  std::reverse(found.begin(), found.end());
  return found;
}

}  // namespace

TrustedText recast(const TrustedText& from, std::string bytes) {
  return from.all_trusted() ? TrustedText::trusted(std::move(bytes)) : TrustedText::untrusted(std::move(bytes));
}

TrustedText recased(Budget& budget, const TrustedText& text, CaseMap map) {
  budget.charge_bytes(kCharCost * text.size());
  return recast(text, mapped(text.bytes(), map));
}

TrustedText recased(Budget& budget, const TrustedText& text, std::string (*transform)(std::string_view)) {
  budget.charge_bytes(kCharCost * text.size());
  return recast(text, transform(text.bytes()));
}

std::string filter_title(std::string_view text) {
  std::string out, word;
  const auto flush = [&] {
    const std::size_t first = word.empty() ? 0 : decode_at(word, 0).bytes;
    out += mapped(word.substr(0, first), CaseMap::kUpper) + mapped(word.substr(first), CaseMap::kLower);
    word.clear();
  };
  bool in_gap = false;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode_at(text, at);
    const bool is_gap = is_space(c.value) || (c.value < 0x80 && std::string_view{"-({[<"}.find(static_cast<char>(c.value)) != kNpos);
    if (std::exchange(in_gap, is_gap) != is_gap) flush();
    word += text.substr(at, c.bytes);
    at += c.bytes;
  }
  flush();
  return out;
}

TrustedText escaped(Budget& budget, const TrustedText& text) {
  budget.charge_bytes(text.size());
  TrustedText out;
  if (text.is_markup()) return text;
  const std::string& bytes = text.bytes();
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t special = std::min(bytes.find_first_of("&<>'\"", at), bytes.size());
    out.append_slice(text, at, special);
    if (special == bytes.size()) break;
    const char c = bytes[special];
    out.append_instead(text, special, c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '\'' ? "&#39;" : "&#34;");
    budget.charge(1);
    at = special + 1;
  }
  return out.set_markup(true);
}

void require_public_key(std::string_view name) {
  if (name.starts_with('_')) {
    fail(TemplateErrorKind::kUnsupported, "the name '" + std::string{name} + "' starts with an underscore, which is refused");
  }
}

TrustedText trimmed(Budget& budget, const TrustedText& text, Side side, const TrustedText* chars) {
  const std::string& bytes = text.bytes();
  const auto strips = [&](char32_t c) {
    if (chars == nullptr) return is_space(c);
    std::string one;
    encode_to(one, c);
    if (chars->size() > kBytesPerStep) budget.charge_bytes(chars->size());
    return chars->bytes().find(one) != std::string::npos;
  };
  budget.charge_bytes(text.size());
  std::size_t begin = 0, end = bytes.size();
  while (side != Side::kRight && begin < end && strips(decode_at(bytes, begin).value)) begin += decode_at(bytes, begin).bytes;
  while (side != Side::kLeft && end > begin && strips(decode_before(bytes, end).value)) end -= decode_before(bytes, end).bytes;
  return text.slice(begin, end);
}

std::vector<TrustedText> split(Budget& budget, const TrustedText& text, const TrustedText* separator, std::int64_t max_splits,
                               bool from_right) {
  budget.charge_bytes(text.size());
  if (separator == nullptr) {
    auto blank_parts = from_right ? split_blank_from_right(budget, text, max_splits) : split_blank(text, max_splits);
    budget.charge(blank_parts.size());
    return blank_parts;
  }
  if (separator->empty()) fail_runtime("a split at an empty separator");
  const auto cuts = from_right ? occurrences_from_right(budget, text.bytes(), separator->bytes(), max_splits)
                               : occurrences(budget, text.bytes(), separator->bytes(), max_splits);
  budget.charge(cuts.size() + 1);
  std::vector<TrustedText> parts;
  std::size_t begin = 0;
  for (const std::size_t cut : cuts) {
    parts.push_back(text.slice(begin, cut));
    begin = cut + separator->size();
  }
  parts.push_back(text.slice(begin, text.size()));
  return parts;
}

std::vector<TrustedText> split_lines(Budget& budget, const TrustedText& text, bool keep_ends) {
  budget.charge_bytes(text.size());
  const std::string& bytes = text.bytes();
  std::vector<TrustedText> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const CodePoint c = decode_at(bytes, at);
    std::size_t after = at + c.bytes;
    if (is_line_end(c.value)) {
      budget.charge(1);
      if (c.value == '\r' && after < bytes.size() && bytes[after] == '\n') ++after;
      lines.push_back(text.slice(begin, keep_ends ? after : at));
      begin = after;
    }
    at = after;
  }
  if (begin < bytes.size()) lines.push_back(text.slice(begin, bytes.size()));
  return lines;
}

TrustedText replaced(Budget& budget, const TrustedText& text, const TrustedText& old_part, const TrustedText& new_part,
                     std::int64_t max_count) {
  budget.charge_bytes(text.size());
  TrustedText out;
  std::size_t begin = 0;
  if (old_part.empty()) {  // Python inserts before every character and at the end
    for (std::int64_t count = 0; max_count < 0 || count < max_count; ++count) {
      budget.charge(1);
      out.append(new_part);
      if (begin == text.size()) return out;
      const std::size_t after = begin + decode_at(text.bytes(), begin).bytes;
      out.append_slice(text, begin, after);
      begin = after;
    }
  } else {
    for (const std::size_t at : occurrences(budget, text.bytes(), old_part.bytes(), max_count)) {
      out.append_slice(text, begin, at);
      out.append(new_part);
      begin = at + old_part.size();
    }
  }
  out.append_slice(text, begin, text.size());
  return out;
}

}  // namespace kvpage::engine::chat
