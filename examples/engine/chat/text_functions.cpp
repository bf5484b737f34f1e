/// \file Operations of Python's str that keep the trust of bytes, and the filters of texts.
#include "engine/chat/functions.hpp"
#include "engine/chat/text.hpp"

#include <algorithm>
#include <cmath>

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

namespace {

constexpr std::int64_t kMaxIndent = 1000;

enum class TextMethod : std::uint8_t { kCapitalize, kLower, kUpper, kStrip };

/// A filter that is a method of the text of any value.
template <TextMethod kMethod>
Value by_method(Budget& budget, const Value& self, const Arguments& arguments) {
  constexpr std::string_view kNames[] = {"capitalize", "lower", "upper", "strip"};
  const Value text = Value::text(to_text(budget, self));
  return find_method(text, kNames[static_cast<std::size_t>(kMethod)])->function(budget, text, arguments);
}

Value title_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  return Value::text(recased(budget, to_text(budget, self), filter_title));
}

Value center_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"width"}};
  const Value text = Value::text(to_text(budget, self));
  return find_method(text, "center")->function(budget, text, Arguments{{bound[0] != nullptr ? *bound[0] : Value::integer(80)}, {}});
}

Value replace_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"old", "new", "count"}, 2};
  return Value::text(replaced(budget, to_text(budget, self), to_text(budget, *bound[0]), to_text(budget, *bound[1]), bound.integer(2, -1)));
}

Value string_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  return Value::text(to_text(budget, self));
}

Value safe_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  return Value::text(to_text(budget, self).set_markup(true));
}

template <bool kForce>
Value escape_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  TrustedText text = to_text(budget, self);
  if (kForce) text.set_markup(false);
  return Value::text(escaped(budget, text));
}

Value format_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) fail_runtime("format takes arguments with or without names, not both");
  const TrustedText format = to_text(budget, self);
  if (arguments.named.empty()) return printf_format(budget, format, Value::list(arguments.positional, ListForm::kTuple));
  std::vector<Dict::Entry> entries;
  for (const auto& [name, value] : arguments.named) entries.push_back({Value::text(std::string{name}), value});
  return printf_format(budget, format, make_map(budget, std::move(entries)));
}

TrustedText indentation(const Value* width, std::int64_t fallback) {
  if (width != nullptr && width->as_text() != nullptr) return *width->as_text();
  const auto given = width != nullptr ? width->whole() : std::optional<BigInteger>{fallback};
  if (!given) fail_runtime("an indentation must be an integer or a string, not " + std::string{width->type_name()});
  if (*given > BigInteger{kMaxIndent})
    fail(TemplateErrorKind::kLimit, "an indentation of " + given->text() + "; at most " + std::to_string(kMaxIndent));
  return TrustedText::untrusted(std::string(static_cast<std::size_t>(given->is_negative() ? 0 : *given->narrow()), ' '));
}

Value indent_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"width", "first", "blank"}};
  if (self.as_text() == nullptr) fail_runtime("indent needs a string, not " + std::string{self.type_name()});
  const TrustedText blanks = indentation(bound[0], 4);
  TrustedText source = *self.as_text();
  source.append_untrusted("\n");  // so that the last line counts even when it is empty
  TrustedText out;
  if (bound.truth(1, false)) out.append(blanks);
  bool first = true;
  for (const TrustedText& line : split_lines(budget, source, false)) {
    budget.charge_bytes(blanks.size() + line.size());
    if (!first) out.append_untrusted("\n");
    if (!first && (!line.empty() || bound.truth(2, false))) out.append(blanks);
    out.append(line);
    first = false;
  }
  return Value::text(std::move(out.set_markup(self.as_text()->is_markup())));
}

/// The arguments of json.dumps, in the order that chat templates give them.
Value tojson_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"ensure_ascii", "indent", "separators", "sort_keys"}};
  JsonStyle style;
  style.ensure_ascii = bound.truth(0, false);
  if (bound[1] != nullptr && !bound[1]->is_none()) {
    style.indent = indentation(bound[1], 0).bytes();
    style.item_separator = ",";
  }
  if (bound[2] != nullptr && !bound[2]->is_none()) {
    const List* pair = bound[2]->as_list();
    if (pair == nullptr || pair->items.size() != 2 || pair->items[0].as_text() == nullptr || pair->items[1].as_text() == nullptr) {
      fail_runtime("'separators' must be a pair of strings");
    }
    style.item_separator = pair->items[0].as_text()->bytes();
    style.key_separator = pair->items[1].as_text()->bytes();
  }
  style.sort_keys = bound.truth(3, false);
  return Value::text(to_json(budget, self, style));
}

Value truncate_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"length", "killwords", "end", "leeway"}};
  const Value end = bound[2] != nullptr ? *bound[2] : Value::text(std::string{"..."});
  const std::int64_t most = bound.integer(0, 255), leeway = bound.integer(3, 5);
  const auto end_size = static_cast<std::int64_t>(length(budget, end));
  if (most < end_size || leeway < 0) fail_runtime("truncate needs a length of at least its end, and a leeway of at least 0");
  const auto held = static_cast<std::int64_t>(length(budget, self));
  if (held - leeway <= most) return self;
  if (self.as_text() == nullptr) fail_runtime("truncate needs a string, not " + std::string{self.type_name()});
  Value kept = slice(budget, self, {std::nullopt, most - end_size, std::nullopt});
  if (!bound.truth(1, false)) {
    const TrustedText blank = TrustedText::untrusted(" ");
    const bool markup = kept.as_text()->is_markup();
    kept = Value::text(std::move(split(budget, *kept.as_text(), &blank, 1, true).front().set_markup(markup)));
  }
  return arithmetic(budget, ArithmeticOp::kAdd, kept, end);
}

bool is_word(char32_t c) { return c == '_' || has_property(c, kIsAlpha | kIsDecimal | kIsDigit | kIsNumeric); }

Value wordcount_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  const TrustedText text = to_text(budget, self);
  budget.charge_bytes(4 * text.size());
  std::int64_t words = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode_at(text.bytes(), at);
    if (const bool was = std::exchange(inside, is_word(c.value)); inside && !was) ++words;
    at += c.bytes;
  }
  return Value::integer(words);
}

std::string url_quoted(Budget& budget, const Value& value, bool in_query) {
  const TrustedText text = to_text(budget, value);
  std::string out;
  for (const char c : text.bytes()) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       (c != '\0' && std::string_view{"_.-~"}.find(c) != std::string_view::npos);
    if (plain || (c == '/' && !in_query)) {
      out.push_back(c);
    } else if (c == ' ' && in_query) {
      out.push_back('+');
    } else {
      out.push_back('%'), out.push_back("0123456789ABCDEF"[byte >> 4]), out.push_back("0123456789ABCDEF"[byte & 15]);
    }
  }
  budget.charge_bytes(out.size());
  return out;
}

Value urlencode_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  if (self.as_dict() == nullptr && self.as_list() == nullptr) return Value::text(url_quoted(budget, self, false));
  std::vector<std::pair<Value, Value>> pairs;
  if (const Dict* dict = self.as_dict()) {
    for (const Dict::Entry& entry : dict->entries()) pairs.emplace_back(entry.key, entry.value);
  } else {
    for (const Value& item : elements(budget, self)) {
      const std::vector<Value> parts = elements(budget, item);
      if (parts.size() != 2) fail_runtime("urlencode needs pairs of a key and a value");
      pairs.emplace_back(parts[0], parts[1]);
    }
  }
  TrustedText out;
  for (const auto& [key, value] : pairs) {
    out.append_untrusted((out.empty() ? "" : "&") + url_quoted(budget, key, true) + "=" + url_quoted(budget, value, true));
  }
  return Value::text(std::move(out));
}

Value filesizeformat_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"binary"}};
  const double bytes = to_float(budget, self);
  const bool binary = bound.truth(0, false);
  const double base = binary ? 1024.0 : 1000.0;
  if (bytes == 1.0) return Value::text(std::string{"1 Byte"});
  if (!std::isfinite(bytes)) fail_runtime("filesizeformat needs a finite number");
  if (bytes < base) return Value::text(BigInteger::truncated(bytes).text() + " Bytes");
  constexpr std::string_view kLetters = "kMGTPEZY";
  double unit = base;
  std::size_t i = 0;
  do {
    unit *= base;
  } while (bytes >= unit && ++i < kLetters.size());
  i = std::min(i, kLetters.size() - 1);
  FormatSpec spec;
  spec.precision = 1, spec.type = 'f';
  const TrustedText number = formatted(budget, Value::number(base * bytes / unit), spec);
  const std::string letter = binary && i == 0 ? "K" : std::string(1, kLetters[i]);
  return Value::text(number.bytes() + " " + letter + (binary ? "iB" : "B"));
}

Value xmlattr_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"autospace"}};
  if (self.as_dict() == nullptr) fail_runtime("xmlattr needs a map, not " + std::string{self.type_name()});
  TrustedText out;
  for (const Dict::Entry& entry : self.as_dict()->entries()) {
    if (entry.value.is_none() || entry.value.is_undefined()) continue;
    const TrustedText* key = entry.key.as_text();
    const bool bad = key == nullptr || key->bytes().find_first_of(" \t\n\r\f\v/>=") != std::string::npos;
    if (bad) fail_runtime("the name of an attribute must be a string without blanks, '/', '>' and '='");
    if (!out.empty() || bound.truth(0, true)) out.append_untrusted(" ");
    out.append(escaped(budget, *key));
    out.append_untrusted("=\"");
    out.append(escaped(budget, to_text(budget, entry.value)));
    out.append_untrusted("\"");
  }
  return Value::text(std::move(out));
}

/// Without a function: Jinja has the filter, it is not supported here.
constexpr NamedFunction kFilters[] = {
    {"capitalize", by_method<TextMethod::kCapitalize>}, {"center", center_filter}, {"e", escape_filter<false>},
    {"escape", escape_filter<false>}, {"filesizeformat", filesizeformat_filter}, {"forceescape", escape_filter<true>},
    {"format", format_filter}, {"indent", indent_filter}, {"lower", by_method<TextMethod::kLower>},
    {"pprint", nullptr}, {"random", nullptr},
    {"replace", replace_filter}, {"safe", safe_filter}, {"string", string_filter},
    {"striptags", nullptr}, {"title", title_filter}, {"tojson", tojson_filter},
    {"trim", by_method<TextMethod::kStrip>}, {"truncate", truncate_filter}, {"upper", by_method<TextMethod::kUpper>},
    {"urlencode", urlencode_filter}, {"urlize", nullptr}, {"wordcount", wordcount_filter},
    {"wordwrap", nullptr}, {"xmlattr", xmlattr_filter},
};

}  // namespace

std::span<const NamedFunction> text_filters() { return kFilters; }

}  // namespace kvpage::engine::chat
