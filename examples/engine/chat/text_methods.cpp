/// \file The methods of texts, and the operator % on them.
#include "engine/chat/functions.hpp"
#include "engine/chat/text.hpp"
#include "engine/chat/value.hpp"

#include <algorithm>
#include <cmath>

namespace kvpage::engine::chat {
namespace {

constexpr auto kNpos = std::string_view::npos;

/// The result of a method of markup is markup, too.
Value like(const Value& self, TrustedText text) { return Value::text(std::move(text.set_markup(self.as_text()->is_markup()))); }

Value text_list(const Value& self, std::vector<TrustedText> parts, ListForm form = ListForm::kList) {
  std::vector<Value> items;
  for (TrustedText& part : parts) items.push_back(like(self, std::move(part)));
  return Value::list(std::move(items), form);
}

/// A string argument; markup escapes what is put into it.
TrustedText text_argument(Budget& budget, const Value& self, const BoundArguments& bound, std::size_t index) {
  const TrustedText* text = bound.text(index);
  if (text == nullptr) fail_runtime("a method of a string needs a string");
  return put_into(budget, *text, self.as_text()->is_markup());
}

template <CaseMap kMap>
Value cased(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  return like(self, recased(budget, *self.as_text(), kMap));
}

Value casefold(Budget& budget, const Value& self, const Arguments& arguments) {  // markup does not wrap it
  const BoundArguments none{arguments, {}};
  return Value::text(recased(budget, *self.as_text(), CaseMap::kFold));
}

template <std::string (*kTransform)(std::string_view)>
Value transformed(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  return like(self, recased(budget, *self.as_text(), kTransform));
}

template <bool (*kPredicate)(std::string_view)>
Value asked(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  budget.charge_bytes(16 * self.as_text()->size());  // a look-up each
  return Value::boolean(kPredicate(self.as_text()->bytes()));
}

bool all_have(std::string_view text, unsigned bits) {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode_at(text, at);
    if (!has_property(c.value, bits)) return false;
    at += c.bytes;
  }
  return true;
}

template <unsigned kBits, bool kOfEmpty>
bool all_of(std::string_view text) {
  return text.empty() ? kOfEmpty : all_have(text, kBits);
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool is_space_text(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); at += decode_at(text, at).bytes) {
    if (!is_space(decode_at(text, at).value)) return false;
  }
  return !text.empty();
}

bool is_identifier(std::string_view text) {
  return !text.empty() && has_property(decode_at(text, 0).value, kStartsIdentifier) && all_have(text, kContinuesIdentifier);
}

template <Side kSide>
Value strip(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"chars"}};
  return like(self, trimmed(budget, *self.as_text(), kSide, bound.text(0)));
}

Value replace(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"old", "new", "count"}, 2};
  const TrustedText old_part = text_argument(budget, self, bound, 0), new_part = text_argument(budget, self, bound, 1);
  return like(self, replaced(budget, *self.as_text(), old_part, new_part, bound.integer(2, -1)));
}

template <char kAlign>
Value justified(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"width", "fillchar"}, 1};
  FormatSpec spec;
  spec.width = checked_width(static_cast<std::uint64_t>(std::max<std::int64_t>(bound.integer(0, 0), 0)));
  spec.fill = bound[1] != nullptr ? text_argument(budget, self, bound, 1) : TrustedText::untrusted(" ");
  if (count_code_points(spec.fill.bytes()) != 1) fail_runtime("a fill is one character");
  const std::size_t held = count_code_points(self.as_text()->bytes());
  if (kAlign != '^' || spec.width <= held) return like(self, padded(budget, *self.as_text(), spec, kAlign));
  // str.center puts the odd blank to the left when the width is odd.
  const std::size_t missing = spec.width - held, left = missing / 2 + (missing & spec.width & 1);
  FormatSpec before = spec;
  before.width = held + left;
  return like(self, padded(budget, padded(budget, *self.as_text(), before, '>'), spec, '<'));
}

Value zfill(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"width"}, 1};
  const TrustedText& text = *self.as_text();
  const std::size_t sign = text.bytes().starts_with('-') || text.bytes().starts_with('+') ? 1 : 0;
  FormatSpec spec;
  spec.fill = TrustedText::untrusted("0");
  spec.width = checked_width(static_cast<std::uint64_t>(std::max<std::int64_t>(bound.integer(0, 0), sign == 0 ? 0 : 1)) - sign);
  TrustedText out = text.slice(0, sign);
  out.append(padded(budget, text.slice(sign, text.size()), spec, '>'));
  return like(self, std::move(out));
}

Value expandtabs(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"tabsize"}};
  const std::size_t step = checked_width(static_cast<std::uint64_t>(std::max<std::int64_t>(bound.integer(0, 8), 0)));
  const TrustedText& text = *self.as_text();
  budget.charge_bytes(text.size());
  TrustedText out;
  std::size_t column = 0;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode_at(text.bytes(), at);
    if (c.value == '\t') {
      const std::size_t blanks = step == 0 ? 0 : step - column % step;
      budget.charge_bytes(blanks);
      out.append_untrusted(std::string(blanks, ' '));
      column += blanks;
    } else {
      out.append_slice(text, at, at + c.bytes);
      column = c.value == '\n' || c.value == '\r' ? 0 : column + 1;
    }
    at += c.bytes;
  }
  return like(self, std::move(out));
}

template <bool kFromRight>
Value split_method(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"sep", "maxsplit"}};
  return text_list(self, split(budget, *self.as_text(), bound.text(0), bound.integer(1, -1), kFromRight));
}

Value splitlines(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"keepends"}};
  return text_list(self, split_lines(budget, *self.as_text(), bound.truth(0, false)));
}

template <bool kFromRight>
Value partition(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"sep"}, 1};
  const TrustedText separator = text_argument(budget, self, bound, 0);
  std::vector<TrustedText> parts = split(budget, *self.as_text(), &separator, 1, kFromRight);
  if (parts.size() == 2) {
    const std::size_t at = parts[0].size();
    parts.insert(parts.begin() + 1, self.as_text()->slice(at, at + separator.size()));
  } else {
    parts.insert(kFromRight ? parts.begin() : parts.end(), 2, TrustedText{});
  }
  return text_list(self, std::move(parts), ListForm::kTuple);
}

/// The bytes between the code points `start` and `end` of a text, as a slice has them; nullopt when start lies behind the end.
struct Window {
  std::size_t begin, end;
};
std::optional<Window> window_of(Budget& budget, const Value& self, const BoundArguments& bound) {
  const std::string_view text = self.as_text()->bytes();
  if (bound[1] == nullptr && bound[2] == nullptr) return Window{0, text.size()};
  budget.charge_bytes(3 * text.size());
  const auto count = static_cast<std::int64_t>(count_code_points(text));
  const auto place = [&](std::int64_t at) { return at < 0 ? std::max<std::int64_t>(at + count, 0) : at; };
  const std::int64_t start = place(bound.integer(1, 0)), stop = std::min(place(bound.integer(2, count)), count);
  if (start > stop) return std::nullopt;
  return Window{byte_offset(text, static_cast<std::size_t>(start)), byte_offset(text, static_cast<std::size_t>(stop))};
}

/// startswith and endswith: one string, or a tuple of them.
template <bool kAtEnd>
Value has_affix(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"affix", "start", "end"}, 1};
  const auto window = window_of(budget, self, bound);
  const auto matches = [&](const Value& affix) {
    if (affix.as_text() == nullptr) fail_runtime("startswith and endswith need a string, not " + std::string{affix.type_name()});
    budget.charge_bytes(affix.as_text()->size());
    if (!window) return false;
    const std::string_view text = std::string_view{self.as_text()->bytes()}.substr(window->begin, window->end - window->begin);
    return kAtEnd ? text.ends_with(affix.as_text()->bytes()) : text.starts_with(affix.as_text()->bytes());
  };
  const List* several = bound[0]->as_list();
  if (several == nullptr || several->form != ListForm::kTuple) return Value::boolean(matches(*bound[0]));
  return Value::boolean(std::any_of(several->items.begin(), several->items.end(), matches));
}

template <bool kSuffix>
Value remove_affix(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"affix"}, 1};
  const TrustedText &text = *self.as_text(), *const affix = bound.text(0);
  if (affix == nullptr) fail_runtime("a method of a string needs a string");
  budget.charge_bytes(text.size());
  const bool matches = kSuffix ? text.bytes().ends_with(affix->bytes()) : text.bytes().starts_with(affix->bytes());
  const std::size_t cut = matches ? affix->size() : 0;
  return Value::text(kSuffix ? text.slice(0, text.size() - cut) : text.slice(cut, text.size()));
}

/// find, rfind, index, rindex: a code point, or -1 or a failure.
template <bool kFromRight, bool kMustBe>
Value find(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"sub", "start", "end"}, 1};
  const TrustedText* needle = bound.text(0);
  if (needle == nullptr) fail_runtime("find and index need a string");
  const std::string_view text = self.as_text()->bytes();
  const auto window = window_of(budget, self, bound);
  std::size_t at = kNpos;
  if (window) {
    const std::string_view part = text.substr(window->begin, window->end - window->begin);
    if (kFromRight) {
      const std::string mirrored{part.rbegin(), part.rend()}, wanted{needle->bytes().rbegin(), needle->bytes().rend()};
      const std::size_t found = find_bytes(budget, mirrored, wanted);
      if (found != kNpos) at = window->begin + part.size() - found - wanted.size();
    } else if (const std::size_t found = find_bytes(budget, part, needle->bytes()); found != kNpos) {
      at = window->begin + found;
    }
  }
  if (at == kNpos && kMustBe) fail_runtime("index: the string does not hold this part");
  return Value::integer(at == kNpos ? -1 : static_cast<std::int64_t>(count_code_points(text.substr(0, at))));
}

Value count(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"sub", "start", "end"}, 1};
  const TrustedText* needle = bound.text(0);
  if (needle == nullptr) fail_runtime("count needs a string");
  const auto window = window_of(budget, self, bound);
  if (!window) return Value::integer(0);
  const TrustedText part = self.as_text()->slice(window->begin, window->end);
  budget.charge_bytes(part.size());
  if (needle->empty()) return Value::integer(static_cast<std::int64_t>(count_code_points(part.bytes())) + 1);
  return Value::integer(static_cast<std::int64_t>(split(budget, part, needle, -1, false).size()) - 1);
}

Value join(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"iterable"}, 1};
  const bool markup = self.as_text()->is_markup();
  TrustedText out;
  bool first = true;
  for (const Value& item : elements(budget, *bound[0])) {
    if (item.as_text() == nullptr && !markup) fail_runtime("join needs strings, not " + std::string{item.type_name()});
    if (!std::exchange(first, false)) out.append(*self.as_text());
    const TrustedText part = put_into(budget, to_text(budget, item), markup);
    budget.charge_bytes(part.size());
    out.append(part);
  }
  return like(self, std::move(out));
}

Value format(Budget& budget, const Value& self, const Arguments& arguments) { return brace_format(budget, *self.as_text(), arguments); }

Value format_map(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"mapping"}, 1};
  if (bound[0]->as_dict() == nullptr) fail_runtime("format_map needs a map");
  Arguments named;
  for (const Dict::Entry& entry : bound[0]->as_dict()->entries()) {
    budget.charge(1);
    if (const TrustedText* key = entry.key.as_text()) named.named.emplace_back(key->bytes(), entry.value);
  }
  return brace_format(budget, *self.as_text(), named);
}

constexpr NamedFunction kMethods[] = {
    {"capitalize", transformed<capitalized>}, {"casefold", casefold}, {"center", justified<'^'>},
    {"count", count}, {"endswith", has_affix<true>}, {"expandtabs", expandtabs}, {"find", find<false, false>},
    {"format", format}, {"format_map", format_map}, {"index", find<false, true>},
    {"isalnum", asked<all_of<kIsAlpha | kIsDecimal | kIsDigit | kIsNumeric, false>>}, {"isalpha", asked<all_of<kIsAlpha, false>>},
    {"isascii", asked<is_ascii>}, {"isdecimal", asked<all_of<kIsDecimal, false>>}, {"isdigit", asked<all_of<kIsDigit, false>>},
    {"isidentifier", asked<is_identifier>}, {"islower", asked<is_lower_text>}, {"isnumeric", asked<all_of<kIsNumeric, false>>},
    {"isprintable", asked<all_of<kIsPrintable, true>>}, {"isspace", asked<is_space_text>}, {"istitle", asked<is_title_text>},
    {"isupper", asked<is_upper_text>}, {"join", join}, {"ljust", justified<'<'>}, {"lower", cased<CaseMap::kLower>},
    {"lstrip", strip<Side::kLeft>}, {"partition", partition<false>}, {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>}, {"replace", replace}, {"rfind", find<true, false>}, {"rindex", find<true, true>},
    {"rjust", justified<'>'>}, {"rpartition", partition<true>}, {"rsplit", split_method<true>}, {"rstrip", strip<Side::kRight>},
    {"split", split_method<false>}, {"splitlines", splitlines}, {"startswith", has_affix<false>}, {"strip", strip<Side::kBoth>},
    {"swapcase", transformed<case_swapped>}, {"title", transformed<title_cased>}, {"upper", cased<CaseMap::kUpper>}, {"zfill", zfill},
};

}  // namespace

std::span<const NamedFunction> text_methods() { return kMethods; }

namespace {

class PrintfFormat {
 public:
  PrintfFormat(Budget& budget, const TrustedText& format, const Value& argument) : budget_(budget), format_(format), argument_(argument) {
    const List* list = argument.as_list();
    if (list != nullptr && list->form == ListForm::kTuple) {
      values_ = list->items;
    } else {
      values_ = {argument};
      may_stay_ = list != nullptr || argument.as_dict() != nullptr || argument.is_undefined();
    }
  }

  TrustedText run() {
    const std::string_view text = format_.bytes();
    budget_.charge_bytes(text.size());
    TrustedText out;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t percent = std::min(text.find('%', at), text.size());
      out.append_slice(format_, at, percent);
      if (percent == text.size()) break;
      at = percent + 1;
      out.append(conversion(at));
    }
    if (next_ < values_.size() && !may_stay_) fail_runtime("a format with % leaves arguments over");
    return out;
  }

 private:
  const Value& take() {
    if (next_ >= values_.size()) fail_runtime("a format with % has too few arguments");
    return values_[next_++];
  }

  std::optional<std::size_t> take_number(std::string_view text, std::size_t& at, bool& negative) {
    if (at < text.size() && text[at] == '*') {
      ++at;
      const Value& value = take();
      if (value.as_integer() == nullptr) fail_runtime("* in a format with % needs an integer");
      negative = *value.as_integer() < 0;
      const auto size = static_cast<std::uint64_t>(*value.as_integer());
      return checked_width(negative ? 0 - size : size);
    }
    std::uint64_t value = 0;
    const std::size_t begin = at;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
      value = checked_width(value * 10 + static_cast<std::uint64_t>(text[at] - '0'));
    }
    return at > begin ? std::optional{static_cast<std::size_t>(value)} : std::nullopt;
  }

  /// The conversion behind the percent sign before `at`, which moves behind its end.
  TrustedText conversion(std::size_t& at) {
    const std::string_view text = format_.bytes();
    std::optional<Value> named;
    if (at < text.size() && text[at] == '(') named = named_argument(at);
    bool left = false, zeros = false, negative = false;
    FormatSpec spec;
    for (; at < text.size() && std::string_view{"-+ #0"}.find(text[at]) != kNpos; ++at) {
      left = left || text[at] == '-';
      zeros = zeros || text[at] == '0';
      spec.alternate = spec.alternate || text[at] == '#';
      if (text[at] == '+' || (text[at] == ' ' && spec.sign == '-')) spec.sign = text[at];
    }
    spec.width = take_number(text, at, negative).value_or(0);
    left = left || negative;
    negative = false;
    if (at < text.size() && text[at] == '.') {
      ++at;
      spec.precision = take_number(text, at, negative).value_or(0);
      if (negative) spec.precision = 0;
    }
    if (at < text.size() && std::string_view{"hlL"}.find(text[at]) != kNpos) ++at;
    if (at == text.size()) fail_runtime("a format ends inside of a conversion with %");
    spec.type = text[at++];
    if (spec.type == '%') return format_.slice(at - 1, at);
    spec.align = left ? '<' : '>';
    if (std::string_view{"sra"}.find(spec.type) != kNpos) return text_conversion(named ? *named : take(), spec);
    if (zeros && !left) spec.fill = TrustedText::untrusted("0"), spec.align = '=';
    return number_conversion(named ? *named : take(), spec);
  }

  Value named_argument(std::size_t& at) {
    const std::string_view text = format_.bytes();
    const std::size_t begin = at + 1;
    int open = 0;
    for (; at < text.size(); ++at) {
      open += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
      if (open == 0) break;
    }
    if (at == text.size()) fail_runtime("a format has '%(' without its end");
    const std::string name{text.substr(begin, at++ - begin)};
    if (argument_.as_dict() == nullptr) fail_runtime("a format with %(" + name + ") needs a map");
    const Value* held = find_key(budget_, *argument_.as_dict(), name);
    if (held == nullptr) fail_runtime("a format names '" + name + "', which is not given");
    may_stay_ = true;
    return *held;
  }

  TrustedText text_conversion(const Value& value, FormatSpec spec) {
    const TrustedText text = put_into(budget_, converted(budget_, value, spec.type), format_.is_markup());
    const std::size_t end = spec.precision ? byte_offset(text.bytes(), *spec.precision) : text.size();
    return padded(budget_, text.slice(0, end), spec, '>');
  }

  TrustedText number_conversion(const Value& value, FormatSpec spec) {
    constexpr std::string_view kIntegers = "diuoxX", kFloats = "eEfFgG";
    if (spec.type == 'c') {
      const TrustedText* text = value.as_text();
      if (text != nullptr && count_code_points(text->bytes()) != 1) fail_runtime("%c needs one character");
      FormatSpec one;
      one.type = text != nullptr ? '\0' : 'c';
      spec.fill = TrustedText{};
      return padded(budget_, formatted(budget_, value, one), spec, '>');
    }
    const bool whole = kIntegers.find(spec.type) != kNpos;
    if (!whole && kFloats.find(spec.type) == kNpos) fail_runtime(std::string{"the conversion %"} + spec.type + " is unknown");
    if (!is_number(value)) fail_runtime(std::string{"%"} + spec.type + " needs a number, not " + std::string{value.type_name()});
    bool negative = false;
    if (!whole) {
      const Value real = value.as_number() != nullptr ? value : arithmetic(budget_, ArithmeticOp::kDivide, value, Value::integer(1));
      std::string body = number_body(budget_, real, spec, negative);
      return padded_number(budget_, std::move(body), negative, spec);
    }
    Value integer = value;
    if (const double* real = value.as_number()) {
      const bool is_decimal = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
      if (!is_decimal || !(std::abs(*real) < 1e308)) fail_runtime(std::string{"%"} + spec.type + " needs an integer");
      integer = Value::integer(BigInteger::truncated(*real));
    }
    std::string body = number_body(budget_, integer, spec, negative);
    if (spec.precision && *spec.precision > body.size()) {
      budget_.charge_bytes(*spec.precision);
      body.insert(0, *spec.precision - body.size(), '0');
    }
    return padded_number(budget_, std::move(body), negative, spec);
  }

  Budget& budget_;
  const TrustedText& format_;
  const Value& argument_;
  std::vector<Value> values_;
  std::size_t next_ = 0;
  bool may_stay_ = false;
};

}  // namespace

Value printf_format(Budget& budget, const TrustedText& format, const Value& argument) {
  return Value::text(PrintfFormat{budget, format, argument}.run().set_markup(format.is_markup()));
}

}  // namespace kvpage::engine::chat
