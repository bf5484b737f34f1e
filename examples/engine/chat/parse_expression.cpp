/// \file Parsing of expressions by precedence, weakest first.
#include "engine/chat/syntax.hpp"
#include "engine/chat/value.hpp"

#include <algorithm>
#include <array>
#include <charconv>
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

namespace {

const TrustedText* literal_text(const ExprPtr& expr) {
  const auto* literal = std::get_if<Literal>(&expr->node);
  return literal != nullptr ? literal->value.as_text() : nullptr;
}

}  // namespace

ExprPtr Parser::parse_primary() {
  const int at = line();
  const Token token = current();
  switch (token.kind) {
    case TokenKind::kName:
      advance();
      if (token.text == "true" || token.text == "True") return make(at, Literal{Value::boolean(true)});
      if (token.text == "false" || token.text == "False") return make(at, Literal{Value::boolean(false)});
      if (token.text == "none" || token.text == "None") return make(at, Literal{Value::none()});
      require_variable_name(token.text, at);
      for (Callable* callable : open_callables_) {
        callable->reads_caller = callable->reads_caller || token.text == "caller";
        callable->reads_varargs = callable->reads_varargs || token.text == "varargs";
        callable->reads_kwargs = callable->reads_kwargs || token.text == "kwargs";
      }
      return make(at, Name{token.text});
    case TokenKind::kString: {
      std::string text;
      for (; current().kind == TokenKind::kString; advance()) text += current().text;
      return make(at, Literal{Value::text(TrustedText::trusted(std::move(text)))});
    }
    case TokenKind::kInteger:
    case TokenKind::kFloat: return parse_number();
    default: break;
  }
  if (token.is_operator("[")) return parse_list();
  if (token.is_operator("{")) return parse_dict();
  if (!skip_operator("(")) unexpected_token("an expression");
  ExprPtr inner = parse_tuple(true, true);
  expect_operator(")");
  return inner;
}

ExprPtr Parser::parse_number() {
  const Token token = current();
  const std::string& text = token.text;
  advance();
  if (token.kind == TokenKind::kFloat) {
    double value = 0.0;
    if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc{}) {
      fail(TemplateErrorKind::kSyntax, "the number " + text + " is out of range", token.line);
    }
    return make(token.line, Literal{Value::number(value)});
  }
  const char letter = text.size() > 2 ? static_cast<char>(text[1] | 0x20) : '\0';
  const unsigned base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
  const auto value = BigInteger::parse(std::string_view{text}.substr(base == 10 ? 0 : 2), base);
  if (!value) fail(TemplateErrorKind::kSyntax, "'" + text + "' is no integer", token.line);
  return make(token.line, Literal{Value::integer(*value)});
}

ExprPtr Parser::parse_list() {
  const int at = line();
  advance();
  ListLiteral node{{}, ListForm::kList};
  while (!skip_operator("]")) {
    if (!node.items.empty()) expect_operator(",");
    if (skip_operator("]")) break;
    node.items.push_back(parse_expression());
  }
  return make(at, std::move(node));
}

ExprPtr Parser::parse_dict() {
  const int at = line();
  advance();
  DictLiteral node;
  while (!skip_operator("}")) {
    if (!node.entries.empty()) expect_operator(",");
    if (skip_operator("}")) break;
    ExprPtr key = parse_expression();
    expect_operator(":");
    node.entries.emplace_back(std::move(key), parse_expression());
  }
  return make(at, std::move(node));
}

ExprPtr Parser::parse_postfix(ExprPtr operand) {
  Nested links{*this};
  for (;;) {
    const Token& token = current();
    const bool is_attribute = token.is_operator(".");
    if (!is_attribute && !token.is_operator("[") && !token.is_operator("(")) return operand;
    links.add_level();
    operand = is_attribute             ? parse_attribute(std::move(operand))
              : token.is_operator("[") ? parse_subscript(std::move(operand))
                                       : parse_call(std::move(operand));
  }
}

ExprPtr Parser::parse_filters_and_tests(ExprPtr operand) {
  Nested links{*this};
  for (;;) {
    const bool is_filter = current().is_operator("|"), is_call = current().is_operator("(");
    if (!is_filter && !is_call && !current().is_name("is")) return operand;
    links.add_level();
    operand = is_filter ? parse_filter(std::move(operand)) : is_call ? parse_call(std::move(operand)) : parse_test(std::move(operand));
  }
}

ExprPtr Parser::parse_attribute(ExprPtr object) {
  const int at = line();
  advance();
  if (current().kind == TokenKind::kInteger) return make(at, Subscript{std::move(object), parse_number()});
  require_public_name(current().text, line());
  return make(at, Attribute{std::move(object), take_name()});
}

ExprPtr Parser::parse_subscript(ExprPtr object) {
  const int at = line();
  advance();
  const auto bound = [&]() -> ExprPtr { return current().is_operator(":") || current().is_operator("]") ? nullptr : parse_expression(); };
  ExprPtr first = bound();
  if (first != nullptr && skip_operator("]")) {
    if (const TrustedText* key = literal_text(first)) require_public_name(key->bytes(), at);
    return make(at, Subscript{std::move(object), std::move(first)});
  }
  if (first != nullptr && current().is_operator(",")) {  // a tuple is the key
    ListLiteral key{{}, ListForm::kTuple};
    key.items.push_back(std::move(first));
    while (skip_operator(",")) key.items.push_back(parse_expression());
    if (current().is_operator(":")) unsupported("a subscript of several slices");
    expect_operator("]");
    return make(at, Subscript{std::move(object), make(at, std::move(key))});
  }
  expect_operator(":");
  Slice node{std::move(object), std::move(first), bound(), nullptr};
  if (skip_operator(":")) node.step = bound();
  if (current().is_operator(",")) unsupported("a subscript of several slices");
  expect_operator("]");
  return make(at, std::move(node));
}

ExprPtr Parser::parse_call(ExprPtr callee) {
  const int at = line();
  ArgumentExprs arguments = parse_arguments();
  const auto* name = std::get_if<Name>(&callee->node);
  if (name != nullptr && (name->name == "namespace" || name->name == "dict")) {  // here names become attributes and keys
    for (const auto& [key, value] : arguments.named) require_public_name(key, at);
  }
  return make(at, Call{std::move(callee), std::move(arguments)});
}

ArgumentExprs Parser::parse_arguments() {
  ArgumentExprs arguments;
  expect_operator("(");
  bool first = true;
  while (!skip_operator(")")) {
    if (!std::exchange(first, false)) {
      expect_operator(",");
      if (skip_operator(")")) break;
    }
    parse_argument(arguments);
    if (arguments.positional.size() > kMaxArguments) {
      fail(TemplateErrorKind::kLimit, "a call has more than " + std::to_string(kMaxArguments) + " arguments", line());
    }
  }
  return arguments;
}

void Parser::parse_argument(ArgumentExprs& arguments) {
  const bool unpacks = arguments.more_positional != nullptr || arguments.more_named != nullptr;
  if (current().is_operator("*") || current().is_operator("**")) {
    const bool named = current().is_operator("**");
    if (arguments.more_named != nullptr || (!named && unpacks)) syntax_error("a call unpacks arguments in this order: *list, **map");
    advance();
    (named ? arguments.more_named : arguments.more_positional) = parse_expression();
  } else if (current().kind == TokenKind::kName && next().is_operator("=")) {
    if (arguments.more_named != nullptr) syntax_error("an argument follows **");
    require_variable_name(current().text, line());
    std::string name = take_name();
    const auto is_same = [&](const auto& given) { return given.first == name; };
    if (std::any_of(arguments.named.begin(), arguments.named.end(), is_same)) syntax_error("a call gives '" + name + "' twice");
    advance();
    arguments.named.emplace_back(std::move(name), parse_expression());
  } else {
    if (!arguments.named.empty() || unpacks) syntax_error("an argument without a name follows one with a name");
    arguments.positional.push_back(parse_expression());
  }
}

std::string Parser::parse_dotted_name() {
  std::string name = take_name();
  while (skip_operator(".")) name += "." + take_name();
  return name;
}

ExprPtr Parser::parse_filter(ExprPtr operand) {
  advance();
  const int at = line();
  std::string name = parse_dotted_name();
  ArgumentExprs arguments;
  if (current().is_operator("(")) arguments = parse_arguments();
  return make(at, FilterCall{std::move(operand), std::move(name), std::move(arguments)});
}

ExprPtr Parser::parse_test(ExprPtr operand) {
  advance();
  const int at = line();
  const bool negated = skip_name("not");
  std::string name = parse_dotted_name();
  ArgumentExprs arguments;
  const Token& token = current();
  const bool starts_operand = token.kind == TokenKind::kString || token.kind == TokenKind::kInteger || token.kind == TokenKind::kFloat ||
                              token.is_operator("[") || token.is_operator("{") ||
                              (token.kind == TokenKind::kName && token.text != "else" && token.text != "or" && token.text != "and");
  if (token.is_operator("(")) {
    arguments = parse_arguments();
  } else if (token.is_name("is")) {
    syntax_error("tests cannot be chained with 'is'; use 'and'");
  } else if (starts_operand) {
    const Nested nested{*this, 1};
    arguments.positional.push_back(parse_postfix(parse_primary()));
  }
  ExprPtr test = make(at, TestCall{std::move(operand), std::move(name), std::move(arguments)});
  return negated ? make(at, Not{std::move(test)}) : std::move(test);
}

}  // namespace kvpage::engine::chat
