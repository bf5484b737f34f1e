/// \file Parsing of expressions by precedence, weakest first.
#include "engine/chat/parser.hpp"
#include "engine/chat/template_error.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace kvpage::engine::chat {
namespace {

struct ArithmeticToken {
  int level;
  std::string_view text;
  ArithmeticOp op;
};
/// Level 0 binds weaker than `~`, which binds weaker than level 1.
constexpr std::array<ArithmeticToken, 7> kArithmetic{{{0, "+", ArithmeticOp::kAdd},
                                                      {0, "-", ArithmeticOp::kSubtract},
                                                      {1, "*", ArithmeticOp::kMultiply},
                                                      {1, "/", ArithmeticOp::kDivide},
                                                      {1, "//", ArithmeticOp::kFloorDivide},
                                                      {1, "%", ArithmeticOp::kModulo},
                                                      {2, "**", ArithmeticOp::kPower}}};

std::optional<ArithmeticOp> arithmetic_op(const Token& token, int level) {
  for (const ArithmeticToken& entry : kArithmetic) {
    if (entry.level == level && token.is_operator(entry.text)) return entry.op;
  }
  return std::nullopt;
}

struct CompareToken {
  std::string_view text;
  CompareOp op;
};
constexpr std::array<CompareToken, 6> kComparisons{{{"==", CompareOp::kEqual},
                                                    {"!=", CompareOp::kNotEqual},
                                                    {"<", CompareOp::kLess},
                                                    {"<=", CompareOp::kLessEqual},
                                                    {">", CompareOp::kGreater},
                                                    {">=", CompareOp::kGreaterEqual}}};

}  // namespace

/// An expression, or a tuple of several when commas follow.
ExprPtr Parser::parse_tuple(bool with_conditional, bool may_be_empty) {
  const int at = line();
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  const auto ends = [&] {
    const Token& token = current();
    return token.kind == TokenKind::kVariableEnd || token.kind == TokenKind::kBlockEnd || token.is_operator(")");
  };
  while (!ends()) {
    items.push_back(parse_expression(with_conditional));
    if (!skip_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && items.size() == 1) return std::move(items[0]);
  if (items.empty() && !may_be_empty) unexpected_token("an expression");
  return make(at, ListLiteral{std::move(items), ListForm::kTuple});
}

ExprPtr Parser::parse_expression(bool with_conditional) {
  const Nested nested{*this, 1};
  return with_conditional ? parse_conditional() : parse_logic(false);
}

ExprPtr Parser::parse_conditional() {
  const int at = line();
  ExprPtr value = parse_logic(false);
  Nested links{*this};
  while (skip_name("if")) {
    links.add_level();
    ExprPtr condition = parse_logic(false);
    ExprPtr otherwise = skip_name("else") ? parse_expression() : nullptr;
    value = make(at, Conditional{std::move(condition), std::move(value), std::move(otherwise)});
  }
  return value;
}

ExprPtr Parser::parse_logic(bool is_and) {
  const int at = line();
  const auto operand = [&] { return is_and ? parse_not() : parse_logic(true); };
  ExprPtr first = operand();
  if (!current().is_name(is_and ? "and" : "or")) return first;
  Logic node{{}, is_and};
  node.operands.push_back(std::move(first));
  while (skip_name(is_and ? "and" : "or")) node.operands.push_back(operand());
  return make(at, std::move(node));
}

ExprPtr Parser::parse_not() {
  if (!current().is_name("not")) return parse_comparison();
  const Nested nested{*this, 1};
  const int at = line();
  advance();
  return make(at, Not{parse_not()});
}

ExprPtr Parser::parse_comparison() {
  const int at = line();
  ExprPtr first = parse_arithmetic(0);
  Comparison node;
  for (;;) {
    const auto symbol =
        std::find_if(kComparisons.begin(), kComparisons.end(), [&](const auto& c) { return current().is_operator(c.text); });
    CompareOp op = CompareOp::kIn;
    if (symbol != kComparisons.end()) {
      op = symbol->op;
    } else if (current().is_name("not") && next().is_name("in")) {
      op = CompareOp::kNotIn;
      advance();
    } else if (!current().is_name("in")) {
      break;
    }
    advance();
    node.rest.emplace_back(op, parse_arithmetic(0));
  }
  if (node.rest.empty()) return first;
  node.first = std::move(first);
  return make(at, std::move(node));
}

/// Level 0: + -, 1: * / // %, 2: **.
ExprPtr Parser::parse_arithmetic(int level) {
  const int at = line();
  const auto operand = [&] { return level == 0 ? parse_concat() : level == 1 ? parse_arithmetic(2) : parse_unary(); };
  ExprPtr first = operand();
  if (!arithmetic_op(current(), level)) return first;
  Arithmetic node{std::move(first), {}};
  while (const auto op = arithmetic_op(current(), level)) {
    advance();
    node.rest.emplace_back(*op, operand());
  }
  return make(at, std::move(node));
}

ExprPtr Parser::parse_concat() {
  const int at = line();
  ExprPtr first = parse_arithmetic(1);
  if (!current().is_operator("~")) return first;
  Concat node;
  node.parts.push_back(std::move(first));
  while (skip_operator("~")) node.parts.push_back(parse_arithmetic(1));
  return make(at, std::move(node));
}

ExprPtr Parser::parse_unary(bool with_filters) {
  const int at = line();
  const bool negative = current().is_operator("-");
  ExprPtr value;
  if (negative || current().is_operator("+")) {
    const Nested nested{*this, 1};
    advance();
    value = make(at, Sign{parse_unary(false), negative});
  } else {
    value = parse_primary();
  }
  value = parse_postfix(std::move(value));
  return with_filters ? parse_filters_and_tests(std::move(value)) : std::move(value);
}

}  // namespace kvpage::engine::chat
