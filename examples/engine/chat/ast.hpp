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
};

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
/// The text that a block `set` has collected; only the innermost operand of its filters.
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
/// A macro, `caller` or a global function.
struct Call {
  std::string name;
  ArgumentExprs arguments;
};
struct MethodCall {
  ExprPtr object;
  std::string name;
  ArgumentExprs arguments;
};
struct FilterCall {
  ExprPtr operand;
  ValueFunction function;
  ArgumentExprs arguments;
};
struct TestCall {
  ExprPtr operand;
  std::string name;
  TestFunction function;
  ArgumentExprs arguments;
};

struct Expr {
  using Node = std::variant<Literal, Name, Captured, ListLiteral, DictLiteral, Not, Sign, Arithmetic, Concat, Logic, Comparison,
                            Conditional, Attribute, Subscript, Slice, Call, MethodCall, FilterCall, TestCall>;
  int line;
  Node node;
};

struct Stmt;
using Block = std::vector<Stmt>;

/// What `set` and `for` assign to: one name, several (unpacking), or `space.attribute`.
struct Target {
  std::vector<std::string> names;
  bool unpacks = false;
  std::string attribute;  // of names[0]; "" = none
};
struct Parameter {
  std::string name;
  ExprPtr fallback;  // nullptr = undefined
};
struct Callable {
  std::string name;
  std::vector<Parameter> parameters;
  Block body;
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
/// A block whose assignments stay inside: `generation`.
struct Scoped {
  Block body;
};
struct Break {};
struct Continue {};

struct Stmt {
  using Node = std::variant<Data, Output, If, For, Set, SetBlock, Macro, CallBlock, Scoped, Break, Continue>;
  int line;
  Node node;
};

/// A compiled template.
struct Program {
  Block body;
};

}  // namespace kvpage::engine::chat
