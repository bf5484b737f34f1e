/// \file The tests of `is`.
#include "engine/chat/function_lists.hpp"

#include "engine/chat/format_value.hpp"
#include "engine/chat/operators.hpp"
#include "engine/chat/utf8.hpp"

namespace kvpage::engine::chat {
namespace {

/// A test without arguments, from a predicate on the value.
template <auto kPredicate>
bool plain(Budget&, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  return kPredicate(self);
}

template <CompareOp kOp>
bool comparison(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"other"}, 1};
  return compare(budget, kOp, self, *bound[0]);
}

bool divisible(Budget& budget, const Value& self, const Value& divisor, std::int64_t rest) {
  return equal(budget, arithmetic(budget, ArithmeticOp::kModulo, self, divisor), Value::integer(rest));
}

template <std::int64_t kRest>
bool parity(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  return divisible(budget, self, Value::integer(2), kRest);
}

bool divisibleby_test(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"num"}, 1};
  return divisible(budget, self, *bound[0], 0);
}

/// islower / isupper: at least one letter, and none of the other case.
template <bool kUpper>
bool cased(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  const TrustedText text = to_text(budget, self);
  bool found = false;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode_at(text.bytes(), at);
    at += c.bytes;
    if (!is_cased(c.value)) continue;
    if ((kUpper ? upper_of(c.value) : lower_of(c.value)) != c.value || (kUpper && c.value == 0xDF)) return false;
    found = true;
  }
  return found;
}

/// Python's `is` for the values that exist once: true, false, none. Others have no identity here.
bool sameas_test(Budget&, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"other"}, 1};
  const Value& other = *bound[0];
  if (other.as_bool() != nullptr) return self.as_bool() != nullptr && *self.as_bool() == *other.as_bool();
  if (other.is_none()) return self.is_none();
  fail(TemplateErrorKind::kUnsupported, "'sameas' is supported for true, false and none; use == for others");
}

constexpr auto kIterable = [](const Value& v) {
  return v.as_text() != nullptr || v.as_list() != nullptr || v.as_dict() != nullptr || v.is_undefined();
};
constexpr auto kSequence = [](const Value& v) { return kIterable(v) && (v.as_list() == nullptr || v.as_list()->form <= ListForm::kRange); };
constexpr auto kIsBool = [](const Value& v) { return v.as_bool() != nullptr; };
constexpr auto kIsTrue = [](const Value& v) { return v.as_bool() != nullptr && *v.as_bool(); };
constexpr auto kIsFalse = [](const Value& v) { return v.as_bool() != nullptr && !*v.as_bool(); };
constexpr auto kNumber = [](const Value& v) { return v.as_bool() != nullptr || v.as_integer() != nullptr || v.as_number() != nullptr; };

constexpr NamedTest kTests[] = {
    {"boolean", plain<kIsBool>},
    {"callable", plain<[](const Value&) { return false; }>},  // functions are no values; the interpreter asks about names
    {"defined", plain<[](const Value& v) { return !v.is_undefined(); }>},
    {"divisibleby", divisibleby_test},
    {"eq", comparison<CompareOp::kEqual>},
    {"equalto", comparison<CompareOp::kEqual>},
    {"==", comparison<CompareOp::kEqual>},
    {"even", parity<0>},
    {"false", plain<kIsFalse>},
    {"float", plain<[](const Value& v) { return v.as_number() != nullptr; }>},
    {"ge", comparison<CompareOp::kGreaterEqual>},
    {">=", comparison<CompareOp::kGreaterEqual>},
    {"greaterthan", comparison<CompareOp::kGreater>},
    {"gt", comparison<CompareOp::kGreater>},
    {">", comparison<CompareOp::kGreater>},
    {"in", comparison<CompareOp::kIn>},
    {"integer", plain<[](const Value& v) { return v.as_integer() != nullptr; }>},
    {"iterable", plain<kIterable>},
    {"le", comparison<CompareOp::kLessEqual>},
    {"<=", comparison<CompareOp::kLessEqual>},
    {"lessthan", comparison<CompareOp::kLess>},
    {"lower", cased<false>},
    {"lt", comparison<CompareOp::kLess>},
    {"<", comparison<CompareOp::kLess>},
    {"mapping", plain<[](const Value& v) { return v.as_dict() != nullptr; }>},
    {"ne", comparison<CompareOp::kNotEqual>},
    {"!=", comparison<CompareOp::kNotEqual>},
    {"none", plain<[](const Value& v) { return v.is_none(); }>},
    {"number", plain<kNumber>},
    {"odd", parity<1>},
    {"sameas", sameas_test},
    {"sequence", plain<kSequence>},
    {"string", plain<[](const Value& v) { return v.as_text() != nullptr; }>},
    {"true", plain<kIsTrue>},
    {"undefined", plain<[](const Value& v) { return v.is_undefined(); }>},
    {"upper", cased<true>},
};

}  // namespace

std::span<const NamedTest> value_tests() { return kTests; }

}  // namespace kvpage::engine::chat
