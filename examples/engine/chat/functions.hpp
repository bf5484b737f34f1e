/// \file What a template can do with values: operators, and the fixed lists of filters, tests and methods.
#pragma once

#include "engine/chat/value.hpp"

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvpage::engine::chat {

enum class ArithmeticOp : std::uint8_t { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
enum class CompareOp : std::uint8_t { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };

bool is_number(const Value& value);
/// -1, 0, 1; nullopt when one is NaN. Requires: both are numbers.
std::optional<int> compare_numbers(const Value& a, const Value& b);
bool equal(Budget& budget, const Value& a, const Value& b);
/// a < b. Errors: kRuntime when the two have no order.
bool less(Budget& budget, const Value& a, const Value& b);
bool compare(Budget& budget, CompareOp op, const Value& a, const Value& b);
/// item in container.
bool contains(Budget& budget, const Value& container, const Value& item);

/// Errors: kRuntime for operands without that operation, or a division by zero.
Value arithmetic(Budget& budget, ArithmeticOp op, const Value& a, const Value& b);
Value negate(const Value& operand, bool negative);
/// Python's float(value). Errors: kRuntime for what is no number.
double to_float(Budget& budget, const Value& value);

/// object[index] and object.name for data; undefined when there is no such element. Errors: kRuntime on undefined itself.
Value subscript(Budget& budget, const Value& object, const Value& index);
Value attribute(Budget& budget, const Value& object, std::string_view name);

struct SliceBounds {
  std::optional<std::int64_t> start, stop, step;
};
Value slice(Budget& budget, const Value& object, const SliceBounds& bounds);

/// What comparing a key `comparisons` times costs: its texts, and one step for each part of a tuple.
void charge_key(Budget& budget, const Value& key, std::size_t comparisons);
/// The steps of a search for `name` among `count` names, one by one.
std::size_t search_steps(std::size_t count, std::string_view name);
/// Value::dict and Dict::find for what a template makes, charged. Errors: kRuntime for a key that cannot be one.
Value make_map(Budget& budget, std::vector<Dict::Entry> entries);
const Value* find_key(Budget& budget, const Dict& dict, std::string_view key);
const Value* find_key(Budget& budget, const Dict& dict, const Value& key);

/// The elements that a loop visits: of a list, the keys of a map, the characters of a string; none of undefined.
/// An iterator gives those that it has left, and has none afterwards.
std::vector<Value> elements(Budget& budget, const Value& value);
/// len(value). Errors: kRuntime when it has none.
std::size_t length(Budget& budget, const Value& value);

/// Byte position of `needle` in `text` from `from` on, npos if absent. Cost: linear, whatever the input.
std::size_t find_bytes(Budget& budget, std::string_view text, std::string_view needle, std::size_t from = 0);

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string_view, Value>> named;
  Value names_owner = {};  ///< the map whose keys `named` points into, if one was unpacked
};

/// Arguments matched to the parameter names of a built-in function; an absent one is nullptr.
class BoundArguments {
 public:
  /// Errors: kRuntime for too many arguments, an unknown name, one given twice, or less than `required`.
  BoundArguments(const Arguments& arguments, std::initializer_list<std::string_view> names, std::size_t required = 0);

  const Value* operator[](std::size_t index) const { return values_[index]; }
  /// Absent and none give `fallback`. Errors: kRuntime when the value is of another type.
  std::int64_t integer(std::size_t index, std::int64_t fallback) const;
  bool truth(std::size_t index, bool fallback) const;
  const TrustedText* text(std::size_t index) const;  ///< nullptr when absent or none

 private:
  std::vector<std::string_view> names_;
  std::vector<const Value*> values_;  // [names]
};

/// `value | name(arguments)` and `value.name(arguments)`.
using ValueFunction = Value (*)(Budget&, const Value&, const Arguments&);
/// `value is name(arguments)`.
using TestFunction = bool (*)(Budget&, const Value&, const Arguments&);

struct NamedFunction {
  std::string_view name;
  ValueFunction function;  ///< nullptr: Jinja has it, but it is not supported here
};
struct NamedTest {
  std::string_view name;
  TestFunction function;
};

/// nullptr when the name is not in the list.
const NamedFunction* find_filter(std::string_view name);
const NamedTest* find_test(std::string_view name);

/// The same for one that is called. Errors: kUnsupported.
const NamedFunction& require_filter(std::string_view name);
const NamedTest& require_test(std::string_view name);

/// The method `name` of this receiver; nullptr when it has none. `loop.cycle` and the like are known to the interpreter alone.
const NamedFunction* find_method(const Value& receiver, std::string_view name);
/// True when Python has something under `receiver.name` that is not supported here: a key of that name would be hidden.
bool is_python_attribute(const Value& receiver, std::string_view name);

std::span<const NamedFunction> text_filters();
std::span<const NamedFunction> text_methods();
std::span<const NamedFunction> number_filters();
std::span<const NamedFunction> collection_filters();
std::span<const NamedFunction> selection_filters();
std::span<const NamedFunction> dict_methods();
std::span<const NamedFunction> list_methods(ListForm form);
std::span<const NamedFunction> number_methods(const Value& number);  ///< empty for what is no number
std::span<const NamedTest> value_tests();

}  // namespace kvpage::engine::chat
