/// \file str % arguments.
#include "engine/chat/string_format.hpp"

#include "engine/chat/format_value.hpp"
#include "engine/chat/operators.hpp"
#include "engine/chat/template_error.hpp"
#include "engine/chat/text_ops.hpp"
#include "engine/chat/utf8.hpp"

#include <algorithm>
#include <cmath>

namespace kvpage::engine::chat {
namespace {

constexpr auto kNpos = std::string_view::npos;

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
