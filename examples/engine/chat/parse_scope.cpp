/// \file Parsing of what has names of its own: targets of assignments, macros, and blocks with a scope.
#include "engine/chat/limits.hpp"
#include "engine/chat/parser.hpp"
#include "engine/chat/template_error.hpp"

#include <algorithm>

namespace kvpage::engine::chat {
namespace {

bool is_blank(const Stmt& statement) {
  const auto* data = std::get_if<Data>(&statement.node);
  return data != nullptr && data->text.bytes().find_first_not_of(" \t\n\r\f\v") == std::string::npos;
}

}  // namespace

Target Parser::parse_target_name(bool allow_attribute) {
  Target target;
  const std::string_view name = current().text;
  require_variable_name(name, line());
  for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"}) {
    if (current().is_name(constant)) syntax_error("'" + std::string{name} + "' is a constant: nothing can be assigned to it");
  }
  target.name = take_name();
  if (allow_attribute && skip_operator(".")) {
    require_public_name(current().text, line());
    target.attribute = take_name();
  }
  return target;
}

/// A name, or several with commas between, each of which may be several in parentheses.
Target Parser::parse_target(bool allow_attribute, bool nested) {
  const Nested level{*this, 1};
  Target target;
  bool has_comma = false;
  while (current().kind == TokenKind::kName || current().is_operator("(")) {
    if (current().is_name("in") && !target.parts.empty()) break;
    if (skip_operator("(")) {
      target.parts.push_back(parse_target(false, true));
      expect_operator(")");
    } else {
      target.parts.push_back(parse_target_name(allow_attribute && target.parts.empty() && !nested));
    }
    if (!target.parts.back().attribute.empty() || !skip_operator(",")) break;
    has_comma = true;
  }
  if (target.parts.empty()) unexpected_token("a name");
  if (!has_comma) {
    Target only = std::move(target.parts[0]);
    return only;
  }
  target.unpacks = true;
  return target;
}

std::vector<Parameter> Parser::parse_parameters() {
  std::vector<Parameter> parameters;
  expect_operator("(");
  while (!skip_operator(")")) {
    if (!parameters.empty()) expect_operator(",");
    require_variable_name(current().text, line());
    Parameter parameter{take_name(), nullptr};
    if (skip_operator("=")) {
      parameter.fallback = parse_expression();
    } else if (!parameters.empty() && parameters.back().fallback != nullptr) {
      syntax_error("the parameter '" + parameter.name + "' without a default follows one with a default");
    }
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

/// The body of a macro or call block: no loop reaches into it, and what it reads decides which arguments it takes.
void Parser::parse_callable_body(Callable& callable, std::string_view end_name) {
  for (Parameter& parameter : callable.parameters) {
    if (parameter.name == "caller" && parameter.fallback == nullptr) syntax_error("the parameter 'caller' needs a default");
  }
  open_callables_.push_back(&callable);
  const int outer_loops = std::exchange(loop_depth_, 0);
  callable.body = parse_block({end_name});
  loop_depth_ = outer_loops;
  open_callables_.pop_back();
  advance();
}

Macro Parser::parse_macro() {
  advance();
  require_variable_name(current().text, line());
  Macro node;
  node.callable.name = take_name();
  node.callable.parameters = parse_parameters();
  expect_block_end();
  parse_callable_body(node.callable, "endmacro");
  return node;
}

CallBlock Parser::parse_call_block() {
  advance();
  CallBlock node;
  node.caller.name = "caller";
  if (current().is_operator("(")) node.caller.parameters = parse_parameters();
  node.call = parse_expression();
  if (!std::holds_alternative<Call>(node.call->node)) syntax_error("{% call %} needs the call of a macro");
  expect_block_end();
  parse_callable_body(node.caller, "endcall");
  return node;
}

FilterBlock Parser::parse_filter_block() {
  const int at = line();
  FilterBlock node;
  node.value = make(at, Captured{});
  Nested links{*this};
  do {  // the tag stands where the first `|` would
    links.add_level();
    node.value = parse_filter(std::move(node.value));
  } while (current().is_operator("|"));
  expect_block_end();
  node.body = parse_block({"endfilter"});
  advance();
  return node;
}

Scoped Parser::parse_with() {
  advance();
  Scoped node;
  while (current().kind != TokenKind::kBlockEnd) {
    if (!node.names.empty()) expect_operator(",");
    Target target = parse_target_name(false);
    expect_operator("=");
    node.names.emplace_back(std::move(target), parse_expression());
  }
  expect_block_end();
  node.body = parse_block({"endwith"});
  advance();
  return node;
}

Scoped Parser::parse_generation() {
  advance();
  expect_block_end();
  const int outer_loops = std::exchange(loop_depth_, 0);
  Scoped node{{}, parse_block({"endgeneration"})};
  loop_depth_ = outer_loops;
  advance();
  return node;
}

/// Nothing is escaped here, so that only `false` has its meaning.
Stmt::Node Parser::parse_autoescape() {
  advance();
  const bool escapes = !current().is_name("false") && !current().is_name("False");
  const ExprPtr ignored = parse_expression();
  expect_block_end();
  Scoped node{{}, parse_block({"endautoescape"})};
  advance();
  if (escapes) return UnsupportedTag{"autoescape"};
  return node;
}

NamedBlock Parser::parse_named_block() {
  advance();
  const std::string name = take_name();
  if (std::find(block_names_.begin(), block_names_.end(), name) != block_names_.end())
    syntax_error("the block '" + name + "' is there twice");
  block_names_.push_back(name);
  const bool is_scoped = skip_name("scoped"), is_required = skip_name("required");
  expect_block_end();
  const int outer_loops = std::exchange(loop_depth_, 0);
  NamedBlock node{parse_block({"endblock"}), is_scoped, is_required};
  loop_depth_ = outer_loops;
  if (is_required && !std::all_of(node.body.begin(), node.body.end(), is_blank)) {
    syntax_error("the required block '" + name + "' has content");
  }
  advance();
  skip_name(name);
  return node;
}

UnsupportedTag Parser::parse_unsupported_tag() {
  UnsupportedTag node{take_name()};
  while (current().kind != TokenKind::kBlockEnd && current().kind != TokenKind::kEnd) advance();
  return node;
}

}  // namespace kvpage::engine::chat
