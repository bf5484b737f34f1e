/// \file Parsing of literals, names, and what may follow them: attributes, subscripts, calls, filters and tests.
#include "engine/chat/limits.hpp"
#include "engine/chat/parser.hpp"
#include "engine/chat/template_error.hpp"

#include <algorithm>
#include <charconv>

namespace kvpage::engine::chat {
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
      require_public_name(token.text, at, false);
      if (token.text == "varargs" || token.text == "kwargs") unsupported("'" + token.text + "'");
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
  const char* end = token.text.data() + token.text.size();
  const auto parsed = [&](auto value) {
    if (std::from_chars(token.text.data(), end, value).ec != std::errc{}) syntax_error("the number " + token.text + " is out of range");
    return value;
  };
  const Value value = token.kind == TokenKind::kFloat ? Value::number(parsed(0.0)) : Value::integer(parsed(std::int64_t{0}));
  advance();
  return make(token.line, Literal{value});
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
    const bool is_filter = current().is_operator("|");
    if (current().is_operator("(")) unsupported("calling the result of a filter or test");
    if (!is_filter && !current().is_name("is")) return operand;
    links.add_level();
    operand = is_filter ? parse_filter(std::move(operand)) : parse_test(std::move(operand));
  }
}

ExprPtr Parser::parse_attribute(ExprPtr object) {
  const int at = line();
  advance();
  if (current().kind == TokenKind::kInteger) return make(at, Subscript{std::move(object), parse_number()});
  require_public_name(current().text, line(), true);
  return make(at, Attribute{std::move(object), take_name()});
}

ExprPtr Parser::parse_subscript(ExprPtr object) {
  const int at = line();
  advance();
  const auto bound = [&]() -> ExprPtr { return current().is_operator(":") || current().is_operator("]") ? nullptr : parse_expression(); };
  ExprPtr first = bound();
  if (first != nullptr && skip_operator("]")) {
    if (const TrustedText* key = literal_text(first)) require_public_name(key->bytes(), at, true);
    return make(at, Subscript{std::move(object), std::move(first)});
  }
  if (current().is_operator(",")) unsupported("a subscript of several values");
  expect_operator(":");
  Slice node{std::move(object), std::move(first), bound(), nullptr};
  if (skip_operator(":")) node.step = bound();
  expect_operator("]");
  return make(at, std::move(node));
}

ExprPtr Parser::parse_call(ExprPtr callee) {
  const int at = line();
  ArgumentExprs arguments = parse_arguments();
  if (auto* name = std::get_if<Name>(&callee->node)) {
    called_names_.emplace_back(name->name, at);
    return make(at, Call{std::move(name->name), std::move(arguments)});
  }
  auto* attribute = std::get_if<Attribute>(&callee->node);
  if (attribute == nullptr) fail(TemplateErrorKind::kUnsupported, "calling this kind of expression is not supported", at);
  if (!is_method_name(attribute->name) && attribute->name != "cycle") {
    fail(TemplateErrorKind::kUnsupported, "the method '" + attribute->name + "' is not supported", at);
  }
  return make(at, MethodCall{std::move(attribute->object), std::move(attribute->name), std::move(arguments)});
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
    if (current().is_operator("*") || current().is_operator("**")) unsupported("unpacking of call arguments");
    if (current().kind == TokenKind::kName && next().is_operator("=")) {
      std::string name = take_name();
      require_public_name(name, line(), true);
      advance();
      arguments.named.emplace_back(std::move(name), parse_expression());
    } else {
      if (!arguments.named.empty()) syntax_error("an argument without a name follows one with a name");
      arguments.positional.push_back(parse_expression());
    }
    if (arguments.positional.size() > kMaxArguments) {
      fail(TemplateErrorKind::kLimit, "a call has more than " + std::to_string(kMaxArguments) + " arguments", line());
    }
  }
  return arguments;
}

ExprPtr Parser::parse_filter(ExprPtr operand) {
  advance();
  const int at = line();
  const std::string name = take_name();
  ArgumentExprs arguments;
  if (current().is_operator("(")) arguments = parse_arguments();
  if (name == "safe") {  // it changes nothing where nothing is escaped, except what is done with its result afterwards
    if (current().kind != TokenKind::kVariableEnd || !arguments.positional.empty())
      unsupported("the filter 'safe' inside of an expression");
    return operand;
  }
  const ValueFunction function = find_filter(name);
  if (function == nullptr) fail(TemplateErrorKind::kUnsupported, "the filter '" + name + "' is not supported", at);
  require_known_function_names(name, arguments, at);
  return make(at, FilterCall{std::move(operand), function, std::move(arguments)});
}

/// map('filter'), select('test'), selectattr('attribute', 'test'): a wrong name should not wait for the first message.
void Parser::require_known_function_names(std::string_view filter, const ArgumentExprs& arguments, int line) const {
  const bool by_attribute = filter == "selectattr" || filter == "rejectattr";
  const bool by_test = by_attribute || filter == "select" || filter == "reject";
  if (!by_test && filter != "map") return;
  const std::size_t index = by_attribute ? 1 : 0;
  if (arguments.positional.size() <= index) return;
  const TrustedText* name = literal_text(arguments.positional[index]);
  if (name == nullptr) fail(TemplateErrorKind::kUnsupported, "a computed filter or test name is not supported", line);
  const bool known = by_test ? find_test(name->bytes()) != nullptr : find_filter(name->bytes()) != nullptr;
  if (!known) fail(TemplateErrorKind::kUnsupported, "the filter or test '" + name->bytes() + "' is not supported", line);
}

ExprPtr Parser::parse_test(ExprPtr operand) {
  advance();
  const int at = line();
  const bool negated = skip_name("not");
  const std::string name = take_name();
  const TestFunction function = find_test(name);
  if (function == nullptr) fail(TemplateErrorKind::kUnsupported, "the test '" + name + "' is not supported", at);
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
  ExprPtr test = make(at, TestCall{std::move(operand), name, function, std::move(arguments)});
  return negated ? make(at, Not{std::move(test)}) : std::move(test);
}

}  // namespace kvpage::engine::chat
