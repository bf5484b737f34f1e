/// \file Filters and methods of strings.
#include "engine/chat/function_lists.hpp"

#include "engine/chat/format_value.hpp"
#include "engine/chat/operators.hpp"
#include "engine/chat/text_ops.hpp"
#include "engine/chat/utf8.hpp"

#include <algorithm>

namespace kvpage::engine::chat {
namespace {

constexpr std::int64_t kMaxIndent = 1000;

Value text_list(std::vector<TrustedText> parts) {
  std::vector<Value> items;
  for (TrustedText& part : parts) items.push_back(Value::text(std::move(part)));
  return Value::list(std::move(items));
}

/// Filters take the text of any value; methods have a string as receiver.
template <Casing kCasing>
Value casing(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  return Value::text(recased(budget, to_text(budget, self), kCasing));
}

template <Side kSide>
Value strip(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"chars"}};
  return Value::text(trimmed(budget, to_text(budget, self), kSide, bound.text(0)));
}

Value replace_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"old", "new", "count"}, 2};
  return Value::text(replaced(budget, to_text(budget, self), to_text(budget, *bound[0]), to_text(budget, *bound[1]), bound.integer(2, -1)));
}

Value string_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  return Value::text(to_text(budget, self));
}

TrustedText indentation(const Value* width, std::int64_t fallback) {
  if (width != nullptr && width->as_text() != nullptr) return *width->as_text();
  const std::int64_t* given = width != nullptr ? width->as_integer() : &fallback;
  if (given == nullptr) fail_runtime("an indentation must be an integer or a string, not " + std::string{width->type_name()});
  if (*given > kMaxIndent)
    fail(TemplateErrorKind::kLimit, "an indentation of " + std::to_string(*given) + "; at most " + std::to_string(kMaxIndent));
  return TrustedText::untrusted(std::string(static_cast<std::size_t>(std::max<std::int64_t>(*given, 0)), ' '));
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
  return Value::text(std::move(out));
}

Value tojson_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"indent", "ensure_ascii", "separators", "sort_keys"}};
  JsonStyle style;
  if (bound[0] != nullptr && !bound[0]->is_none()) {
    style.indent = indentation(bound[0], 0).bytes();
    style.item_separator = ",";
  }
  style.ensure_ascii = bound.truth(1, false);
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

template <bool kFromRight>
Value split_method(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"sep", "maxsplit"}};
  return text_list(split(budget, *self.as_text(), bound.text(0), bound.integer(1, -1), kFromRight));
}

Value splitlines_method(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"keepends"}};
  return text_list(split_lines(budget, *self.as_text(), bound.truth(0, false)));
}

/// startswith and endswith: one string, or a tuple of them.
template <bool kAtEnd>
Value has_affix(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"affix"}, 1};
  const auto matches = [&](const Value& affix) {
    if (affix.as_text() == nullptr) fail_runtime("startswith and endswith need a string, not " + std::string{affix.type_name()});
    budget.charge_bytes(affix.as_text()->size());
    const std::string& text = self.as_text()->bytes();
    return kAtEnd ? text.ends_with(affix.as_text()->bytes()) : text.starts_with(affix.as_text()->bytes());
  };
  const List* several = bound[0]->as_list();
  if (several == nullptr || several->form != ListForm::kTuple) return Value::boolean(matches(*bound[0]));
  return Value::boolean(std::any_of(several->items.begin(), several->items.end(), matches));
}

template <bool kSuffix>
Value remove_affix(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"affix"}, 1};
  const TrustedText& text = *self.as_text();
  const TrustedText* affix = bound.text(0);
  budget.charge_bytes(text.size());
  if (affix == nullptr || !(kSuffix ? text.bytes().ends_with(affix->bytes()) : text.bytes().starts_with(affix->bytes()))) return self;
  return Value::text(kSuffix ? text.slice(0, text.size() - affix->size()) : text.slice(affix->size(), text.size()));
}

Value find_method_of_text(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"sub"}, 1};
  const TrustedText* needle = bound.text(0);
  if (needle == nullptr) fail_runtime("find needs a string");
  const std::string_view text = self.as_text()->bytes();
  const std::size_t at = find_bytes(budget, text, needle->bytes());
  return Value::integer(at == std::string_view::npos ? -1 : static_cast<std::int64_t>(count_code_points(text.substr(0, at))));
}

Value count_method_of_text(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"sub"}, 1};
  const TrustedText* needle = bound.text(0);
  if (needle == nullptr || needle->empty()) fail_runtime("count needs a string that is not empty");
  return Value::integer(static_cast<std::int64_t>(split(budget, *self.as_text(), needle, -1, false).size()) - 1);
}

Value join_method(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"iterable"}, 1};
  TrustedText out;
  bool first = true;
  for (const Value& item : elements(budget, *bound[0])) {
    if (item.as_text() == nullptr) fail_runtime("join needs strings, not " + std::string{item.type_name()});
    if (!std::exchange(first, false)) out.append(*self.as_text());
    budget.charge_bytes(item.as_text()->size());
    out.append(*item.as_text());
  }
  return Value::text(std::move(out));
}

constexpr NamedFunction kFilters[] = {
    {"capitalize", casing<Casing::kCapitalize>}, {"indent", indent_filter}, {"lower", casing<Casing::kLower>}, {"replace", replace_filter},
    {"string", string_filter}, {"title", casing<Casing::kTitleFilter>}, {"tojson", tojson_filter}, {"trim", strip<Side::kBoth>},
    {"upper", casing<Casing::kUpper>},
};

constexpr NamedFunction kMethods[] = {
    {"capitalize", casing<Casing::kCapitalize>},
    {"count", count_method_of_text},
    {"endswith", has_affix<true>},
    {"find", find_method_of_text},
    {"join", join_method},
    {"lower", casing<Casing::kLower>},
    {"lstrip", strip<Side::kLeft>},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"replace", replace_filter},
    {"rsplit", split_method<true>},
    {"rstrip", strip<Side::kRight>},
    {"split", split_method<false>},
    {"splitlines", splitlines_method},
    {"startswith", has_affix<false>},
    {"strip", strip<Side::kBoth>},
    {"title", casing<Casing::kTitleMethod>},
    {"upper", casing<Casing::kUpper>},
};

}  // namespace

std::span<const NamedFunction> text_filters() { return kFilters; }
std::span<const NamedFunction> text_methods() { return kMethods; }

}  // namespace kvpage::engine::chat
