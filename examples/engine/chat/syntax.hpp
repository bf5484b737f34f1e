/// \file From the text of a template to its syntax tree: tokens, nodes, parser.
#pragma once

#include "engine/chat/functions.hpp"
#include "engine/chat/value.hpp"

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace kvpage::engine::chat {

enum class TokenKind : std::uint8_t {
  kData,  ///< text between tags, whitespace control applied
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,  ///< text = the value, escapes resolved
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  std::string text;

  bool is_operator(std::string_view op) const { return kind == TokenKind::kOperator && text == op; }
  bool is_name(std::string_view name) const { return kind == TokenKind::kName && text == name; }
};

/// Splits `source` into tokens, the last one kEnd. One final newline is dropped, `\r\n` and `\r` become `\n`; a tag's
/// following newline goes (trim_blocks), blanks before a tag that starts a line go (lstrip_blocks), `-` and `+` override.
/// Errors: TemplateFailure (kSyntax, kUnsupported, kLimit) with the line.
/// Source: https://jinja.palletsprojects.com/en/3.1.x/templates/#whitespace-control
std::vector<Token> scan_template(std::string_view source);

/// The value of a string literal (the bytes between its quotes). Errors: kSyntax, kUnsupported.
std::string unescape_literal(std::string_view quoted, int line);

// The syntax tree. Nesting is at most kMaxDepth; chains of operators are flat lists.

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

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
