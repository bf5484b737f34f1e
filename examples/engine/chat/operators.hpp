/// \file The operators of templates, with the meaning that Python gives them.
#pragma once

#include "engine/chat/ast.hpp"
#include "engine/chat/budget.hpp"
#include "engine/chat/value.hpp"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace kvpage::engine::chat {

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

}  // namespace kvpage::engine::chat
