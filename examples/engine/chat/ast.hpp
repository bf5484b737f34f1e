/// \file The syntax tree of a template. Nesting is at most kMaxDepth; chains of operators are flat lists.
#pragma once

#include "engine/chat/functions.hpp"
#include "engine/chat/value.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace kvpage::engine::chat {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

enum class ArithmeticOp : std::uint8_t { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
enum class CompareOp : std::uint8_t { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };

struct ArgumentExprs {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr more_positional, more_named;  // *list, **map; nullptr = absent
};

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
/// The text that a block `set` or `filter` has collected; only the innermost operand of its filters.
struct Captured {};
struct ListLiteral {
  std::vector<ExprPtr> items;
  ListForm form;
};
struct DictLiteral {
  std::vector<std::pair<ExprPtr, ExprPtr>> entries;
};
struct Not {
  ExprPtr operand;
};
struct Sign {
  ExprPtr operand;
  bool negative;
};
/// first op operand op operand ..., from left to right.
struct Arithmetic {
  ExprPtr first;
  std::vector<std::pair<ArithmeticOp, ExprPtr>> rest;
};
struct Concat {
  std::vector<ExprPtr> parts;
};
/// Python's `and` / `or`: the value of the operand that decides.
struct Logic {
  std::vector<ExprPtr> operands;
  bool is_and;
};
struct Comparison {
  ExprPtr first;
  std::vector<std::pair<CompareOp, ExprPtr>> rest;
};
struct Conditional {
  ExprPtr condition;
  ExprPtr then;
  ExprPtr otherwise;  // nullptr = undefined
};
struct Attribute {
  ExprPtr object;
  std::string name;
};
struct Subscript {
  ExprPtr object;
  ExprPtr index;
};
struct Slice {
  ExprPtr object;
  ExprPtr start, stop, step;  // nullptr = absent
};
struct Call {
  ExprPtr callee;
  ArgumentExprs arguments;
};
struct FilterCall {
  ExprPtr operand;
  std::string name;
  ArgumentExprs arguments;
};
struct TestCall {
  ExprPtr operand;
  std::string name;
  ArgumentExprs arguments;
};

struct Expr {
  using Node = std::variant<Literal, Name, Captured, ListLiteral, DictLiteral, Not, Sign, Arithmetic, Concat, Logic, Comparison,
                            Conditional, Attribute, Subscript, Slice, Call, FilterCall, TestCall>;
  int line;
  Node node;
};

struct Stmt;
using Block = std::vector<Stmt>;

/// What `set` and `for` assign to: one name, several (unpacking, which may nest), or `space.attribute`.
struct Target {
  std::string name;
  std::string attribute;  // "" = none
  std::vector<Target> parts;
  bool unpacks = false;
};
struct Parameter {
  std::string name;
  ExprPtr fallback;  // nullptr = undefined
};
struct Callable {
  std::string name;
  std::vector<Parameter> parameters;
  Block body;
  // The special names that the body reads; only then a call may bring them.
  bool reads_caller = false, reads_varargs = false, reads_kwargs = false;
};

struct Data {
  TrustedText text;
};
struct Output {
  ExprPtr value;
};
struct If {
  std::vector<std::pair<ExprPtr, Block>> branches;
  Block otherwise;
};
struct For {
  Target target;
  ExprPtr iterable;
  ExprPtr filter;  // nullptr = all
  Block body;
  Block otherwise;
  bool is_recursive = false;
};
struct Set {
  Target target;
  ExprPtr value;
};
struct SetBlock {
  Target target;
  Block body;
  ExprPtr value;  // Captured, inside of its filters
};
struct Macro {
  Callable callable;
};
struct CallBlock {
  Callable caller;
  ExprPtr call;
};
/// {% filter %}: writes what its filters make of the body.
struct FilterBlock {
  Block body;
  ExprPtr value;  // Captured, inside of its filters
};
/// A block whose assignments stay inside, with names of its own: `with`, `generation`, `autoescape false`.
struct Scoped {
  std::vector<std::pair<Target, ExprPtr>> names;
  Block body;
};
/// {% block %} of a template that extends no other: rendered in its place, seeing the names of the top level alone.
struct NamedBlock {
  Block body;
  bool is_scoped = false;    ///< sees the names of the place where it stands, not those of the template alone
  bool is_required = false;  ///< to be filled by another template: an error when it is reached
};
/// A tag that needs other templates: an error when it is reached.
struct UnsupportedTag {
  std::string name;
};
struct Break {};
struct Continue {};

struct Stmt {
  using Node = std::variant<Data, Output, If, For, Set, SetBlock, Macro, CallBlock, FilterBlock, Scoped,
                            NamedBlock, UnsupportedTag, Break, Continue>;
  int line;
  Node node;
};

/// A compiled template.
struct Program {
  Block body;
};

}  // namespace kvpage::engine::chat
