/// \file The tests of `is`.
#include "engine/chat/function_lists.hpp"

#include "engine/chat/format_value.hpp"
#include "engine/chat/operators.hpp"
#include "engine/chat/unicode_text.hpp"

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

template <bool (*kPredicate)(std::string_view)>
bool cased(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  const TrustedText text = to_text(budget, self);
  budget.charge_bytes(4 * text.size());
  return kPredicate(text.bytes());
}

/// Python's `is` for values that exist once or that are of different types. Others have no identity here.
bool sameas_test(Budget&, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"other"}, 1};
  const Value& other = *bound[0];
  if (other.as_bool() != nullptr) return self.as_bool() != nullptr && *self.as_bool() == *other.as_bool();
  if (other.is_none()) return self.is_none();
  if (other.identity() != nullptr || self.identity() != nullptr) return other.identity() == self.identity();
  if (self.type_name() != other.type_name()) return false;
  fail(TemplateErrorKind::kUnsupported, "'sameas' is supported for true, false, none and objects; use == for others");
}

template <auto kFind>
bool known_name(Budget&, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  if (self.as_list() != nullptr || self.as_dict() != nullptr) fail_runtime("'filter' and 'test' need a name");
  return self.as_text() != nullptr && kFind(self.as_text()->bytes()) != nullptr;
}

constexpr auto kIterable = [](const Value& v) {
  return v.as_text() != nullptr || v.as_list() != nullptr || v.as_dict() != nullptr || v.is_undefined() || v.as_loop() != nullptr;
};
constexpr auto kSequence = [](const Value& v) { return kIterable(v) && (v.as_list() == nullptr || v.as_list()->form <= ListForm::kRange); };
constexpr auto kIsBool = [](const Value& v) { return v.as_bool() != nullptr; };
constexpr auto kIsTrue = [](const Value& v) { return v.as_bool() != nullptr && *v.as_bool(); };
constexpr auto kIsFalse = [](const Value& v) { return v.as_bool() != nullptr && !*v.as_bool(); };

constexpr NamedTest kTests[] = {
    {"boolean", plain<kIsBool>},
    {"callable", plain<[](const Value& v) { return v.is_callable() || v.is_undefined(); }>},
    {"defined", plain<[](const Value& v) { return !v.is_undefined(); }>},
    {"divisibleby", divisibleby_test},
    {"eq", comparison<CompareOp::kEqual>},
    {"equalto", comparison<CompareOp::kEqual>},
    {"==", comparison<CompareOp::kEqual>},
    {"escaped", plain<[](const Value& v) { return v.as_text() != nullptr && v.as_text()->is_markup(); }>},
    {"even", parity<0>},
    {"false", plain<kIsFalse>},
    {"filter", known_name<find_filter>},
    {"float", plain<[](const Value& v) { return v.as_number() != nullptr; }>},
    {"ge", comparison<CompareOp::kGreaterEqual>},
    {">=", comparison<CompareOp::kGreaterEqual>},
    {"greaterthan", comparison<CompareOp::kGreater>},
    {"gt", comparison<CompareOp::kGreater>},
    {">", comparison<CompareOp::kGreater>},
    {"in", comparison<CompareOp::kIn>},
    {"integer", plain<[](const Value& v) { return v.as_integer() != nullptr || v.as_big() != nullptr; }>},
    {"iterable", plain<kIterable>},
    {"le", comparison<CompareOp::kLessEqual>},
    {"<=", comparison<CompareOp::kLessEqual>},
    {"lessthan", comparison<CompareOp::kLess>},
    {"lower", cased<is_lower_text>},
    {"lt", comparison<CompareOp::kLess>},
    {"<", comparison<CompareOp::kLess>},
    {"mapping", plain<[](const Value& v) { return v.as_dict() != nullptr; }>},
    {"ne", comparison<CompareOp::kNotEqual>},
    {"!=", comparison<CompareOp::kNotEqual>},
    {"none", plain<[](const Value& v) { return v.is_none(); }>},
    {"number", plain<is_number>},
    {"odd", parity<1>},
    {"sameas", sameas_test},
    {"sequence", plain<kSequence>},
    {"string", plain<[](const Value& v) { return v.as_text() != nullptr; }>},
    {"test", known_name<find_test>},
    {"true", plain<kIsTrue>},
    {"undefined", plain<[](const Value& v) { return v.is_undefined(); }>},
    {"upper", cased<is_upper_text>},
};

}  // namespace

std::span<const NamedTest> value_tests() { return kTests; }

}  // namespace kvpage::engine::chat
