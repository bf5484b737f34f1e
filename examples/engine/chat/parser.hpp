/// \file The parser: tokens to a syntax tree, refusing everything outside of the subset with its line.
#pragma once

#include "engine/chat/ast.hpp"
#include "engine/chat/token.hpp"

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvpage::engine::chat {

/// Recursive descent with an explicit depth: nesting beyond kMaxDepth is an error, never a deeper native stack.
/// Errors: TemplateFailure (kSyntax, kUnsupported, kLimit) with the line.
class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  Program parse();

 private:
  class Nested;  // counts one level while it lives

  const Token& current() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  int line() const { return current().line; }
  void advance() { at_ += at_ + 1 < tokens_.size() ? 1 : 0; }
  bool skip_operator(std::string_view op);
  bool skip_name(std::string_view name);
  void expect_operator(std::string_view op);
  void expect_name(std::string_view name);
  void expect_block_end();
  std::string take_name();
  [[noreturn]] void syntax_error(std::string message) const;
  [[noreturn]] void unsupported(std::string what) const;
  [[noreturn]] void unexpected_token(std::string_view wanted) const;

  // parse_statement.cpp
  Block parse_block(std::initializer_list<std::string_view> end_names);
  Stmt parse_statement();
  Stmt parse_output();
  If parse_if();
  For parse_for();
  Stmt parse_set();
  Macro parse_macro();
  CallBlock parse_call_block();
  FilterBlock parse_filter_block();
  Scoped parse_with();
  Scoped parse_generation();
  Stmt::Node parse_autoescape();
  NamedBlock parse_named_block();
  UnsupportedTag parse_unsupported_tag();
  Stmt parse_loop_control(bool is_break);
  Target parse_target(bool allow_attribute, bool nested = false);
  std::vector<Parameter> parse_parameters();
  Target parse_target_name(bool allow_attribute);
  void parse_callable_body(Callable& callable, std::string_view end_name);

  // parse_expression.cpp
  ExprPtr parse_expression(bool with_conditional = true);
  ExprPtr parse_tuple(bool with_conditional = true, bool may_be_empty = false);
  ExprPtr parse_conditional();
  ExprPtr parse_logic(bool is_and);
  ExprPtr parse_not();
  ExprPtr parse_comparison();
  ExprPtr parse_arithmetic(int level);
  ExprPtr parse_concat();
  ExprPtr parse_unary(bool with_filters = true);

  // parse_postfix.cpp
  ExprPtr parse_primary();
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_number();
  ExprPtr parse_postfix(ExprPtr operand);
  ExprPtr parse_filters_and_tests(ExprPtr operand);
  ExprPtr parse_filter(ExprPtr operand);
  ExprPtr parse_test(ExprPtr operand);
  ExprPtr parse_attribute(ExprPtr object);
  ExprPtr parse_subscript(ExprPtr object);
  ExprPtr parse_call(ExprPtr callee);
  ArgumentExprs parse_arguments();
  void parse_argument(ArgumentExprs& arguments);
  std::string parse_dotted_name();

  template <class Node>
  static ExprPtr make(int line, Node node) {
    return std::make_unique<Expr>(Expr{line, std::move(node)});
  }

  std::vector<Token> tokens_;  // last one kEnd
  std::size_t at_ = 0;
  int depth_ = 0;
  int loop_depth_ = 0;
  std::vector<Callable*> open_callables_;  // whose bodies are being parsed
  std::vector<std::string> block_names_;
};

/// One level of nesting. Postfix chains count too: each link is a level of the tree.
class Parser::Nested {
 public:
  explicit Nested(Parser& parser, int levels = 0);
  ~Nested() { parser_.depth_ -= levels_; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;
  void add_level();

 private:
  Parser& parser_;
  int levels_ = 0;
};

/// Refuses variables named `__...` and, for keys and attributes, every name with `_` in front. Errors: kUnsupported.
void require_variable_name(std::string_view name, int line);
void require_public_name(std::string_view name, int line);

}  // namespace kvpage::engine::chat
