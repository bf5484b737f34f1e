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
