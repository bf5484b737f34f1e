/// \file Filters that make or change strings.
#include "engine/chat/function_lists.hpp"

#include "engine/chat/format_value.hpp"
#include "engine/chat/operators.hpp"
#include "engine/chat/string_format.hpp"
#include "engine/chat/text_ops.hpp"
#include "engine/chat/utf8.hpp"

#include <algorithm>
#include <cmath>

namespace kvpage::engine::chat {
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
