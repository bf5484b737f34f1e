/// \file Parsing of template data and block tags.
#include "engine/chat/syntax.hpp"
#include "engine/chat/value.hpp"

#include <algorithm>
#include <array>

namespace kvpage::engine::chat {
namespace {

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kData: return "template text";
    case TokenKind::kVariableBegin: return "{{";
    case TokenKind::kVariableEnd: return "}}";
    case TokenKind::kBlockBegin: return "{%";
    case TokenKind::kBlockEnd: return "the end of the tag";
    case TokenKind::kEnd: return "the end of the template";
    case TokenKind::kString: return "a string";
    default: return "'" + token.text + "'";
  }
}

[[noreturn]] void fail_underscore(std::string_view name, int line) {
  fail(TemplateErrorKind::kUnsupported, "the name '" + std::string{name} + "' starts with an underscore, which is refused", line);
}

}  // namespace

Parser::Nested::Nested(Parser& parser, int levels) : parser_(parser) {
  for (int i = 0; i < levels; ++i) add_level();
}

void Parser::Nested::add_level() {
  if (parser_.depth_ >= kMaxDepth) {
    fail(TemplateErrorKind::kLimit, "statements and expressions nest more than " + std::to_string(kMaxDepth) + " deep", parser_.line());
  }
  ++parser_.depth_;
  ++levels_;
}

void require_variable_name(std::string_view name, int line) {
  if (name.starts_with("__")) fail_underscore(name, line);
}

void require_public_name(std::string_view name, int line) {
  if (name.starts_with('_')) fail_underscore(name, line);
}

void Parser::syntax_error(std::string message) const { fail(TemplateErrorKind::kSyntax, std::move(message), line()); }
void Parser::unsupported(std::string what) const { fail(TemplateErrorKind::kUnsupported, std::move(what) + " is not supported", line()); }
void Parser::unexpected_token(std::string_view wanted) const {
  syntax_error("expected " + std::string{wanted} + ", found " + describe(current()));
}

bool Parser::skip_operator(std::string_view op) { return current().is_operator(op) && (advance(), true); }
bool Parser::skip_name(std::string_view name) { return current().is_name(name) && (advance(), true); }
void Parser::expect_operator(std::string_view op) {
  if (!skip_operator(op)) unexpected_token("'" + std::string{op} + "'");
}
void Parser::expect_name(std::string_view name) {
  if (!skip_name(name)) unexpected_token("'" + std::string{name} + "'");
}
void Parser::expect_block_end() {
  if (current().kind != TokenKind::kBlockEnd) unexpected_token("the end of the tag");
  advance();
}

std::string Parser::take_name() {
  if (current().kind != TokenKind::kName) unexpected_token("a name");
  std::string name = current().text;
  advance();
  return name;
}

Program Parser::parse() { return Program{parse_block({})}; }

/// Statements up to a tag named in `end_names`, whose name is the current token afterwards; up to the end if there are none.
Block Parser::parse_block(std::initializer_list<std::string_view> end_names) {
  const Nested nested{*this, 1};
  const int opened = at_ > 0 ? tokens_[at_ - 1].line : 1;  // of the tag before
  Block block;
  for (;;) {
    const Token& token = current();
    if (token.kind == TokenKind::kData) {
      block.push_back({token.line, Data{TrustedText::trusted(token.text)}});
      advance();
    } else if (token.kind == TokenKind::kVariableBegin) {
      block.push_back(parse_output());
    } else if (token.kind == TokenKind::kBlockBegin) {
      advance();
      if (std::find(end_names.begin(), end_names.end(), current().text) != end_names.end()) return block;
      block.push_back(parse_statement());
    } else {
      if (end_names.size() == 0) return block;
      fail(TemplateErrorKind::kSyntax, "a block does not end; missing {% " + std::string{*(end_names.end() - 1)} + " %}", opened);
    }
  }
}

Stmt Parser::parse_output() {
  const int at = line();
  advance();
  ExprPtr value = parse_tuple();
  if (current().kind != TokenKind::kVariableEnd) unexpected_token("}}");
  advance();
  return {at, Output{std::move(value)}};
}

Stmt Parser::parse_statement() {
  const int at = line();
  const std::string tag = current().kind == TokenKind::kName ? current().text : "";
  if (tag.empty()) unexpected_token("the name of a tag");
  if (tag == "set") return parse_set();
  if (tag == "break" || tag == "continue") return parse_loop_control(tag == "break");
  Stmt::Node node;
  if (tag == "if") {
    node = parse_if();
  } else if (tag == "for") {
    node = parse_for();
  } else if (tag == "macro") {
    node = parse_macro();
  } else if (tag == "call") {
    node = parse_call_block();
  } else if (tag == "filter") {
    node = parse_filter_block();
  } else if (tag == "with") {
    node = parse_with();
  } else if (tag == "generation") {
    node = parse_generation();
  } else if (tag == "autoescape") {
    node = parse_autoescape();
  } else if (tag == "block") {
    node = parse_named_block();
  } else if (tag == "include" || tag == "import" || tag == "from" || tag == "extends") {
    node = parse_unsupported_tag();
  } else if (tag.starts_with("end") || tag == "else" || tag == "elif") {
    syntax_error("{% " + tag + " %} without its opening tag");
  } else {
    unsupported("the tag {% " + tag + " %}");
  }
  expect_block_end();
  return {at, std::move(node)};
}

If Parser::parse_if() {
  If node;
  do {
    advance();  // if, elif
    ExprPtr condition = parse_tuple(false);
    expect_block_end();
    node.branches.emplace_back(std::move(condition), parse_block({"elif", "else", "endif"}));
  } while (current().is_name("elif"));
  if (skip_name("else")) {
    expect_block_end();
    node.otherwise = parse_block({"endif"});
  }
  expect_name("endif");
  return node;
}

For Parser::parse_for() {
  advance();
  For node;
  node.target = parse_target(false);
  expect_name("in");
  node.iterable = parse_tuple(false);
  if (skip_name("if")) node.filter = parse_expression();
  node.is_recursive = skip_name("recursive");
  expect_block_end();
  ++loop_depth_;
  node.body = parse_block({"else", "endfor"});
  --loop_depth_;
  if (skip_name("else")) {
    expect_block_end();
    node.otherwise = parse_block({"endfor"});
  }
  expect_name("endfor");
  return node;
}

Stmt Parser::parse_set() {
  const int at = line();
  advance();
  Target target = parse_target(true);
  if (skip_operator("=")) {
    ExprPtr value = parse_tuple();
    expect_block_end();
    return {at, Set{std::move(target), std::move(value)}};
  }
  ExprPtr value = make(at, Captured{});
  Nested links{*this};
  while (current().is_operator("|")) {
    links.add_level();
    value = parse_filter(std::move(value));
  }
  expect_block_end();
  Block body = parse_block({"endset"});
  advance();
  expect_block_end();
  return {at, SetBlock{std::move(target), std::move(body), std::move(value)}};
}

Stmt Parser::parse_loop_control(bool is_break) {
  const int at = line();
  if (loop_depth_ == 0) syntax_error("{% " + current().text + " %} outside of a loop");
  advance();
  expect_block_end();
  return is_break ? Stmt{at, Break{}} : Stmt{at, Continue{}};
}

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
