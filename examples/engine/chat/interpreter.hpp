/// \file The interpreter: walks a compiled template once, within the caps of chat/value.hpp.
#pragma once

#include "engine/chat/chat_template.hpp"
#include "engine/chat/syntax.hpp"
#include "engine/chat/value.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace kvpage::engine::chat {

struct Scope;

/// One level of names. Macros see the names of the place where they are written, not of the place that calls them.
struct Scope {
  std::shared_ptr<const Scope> parent;
  std::map<std::string_view, Value, std::less<>> names;

  const Value* find(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
      if (const auto at = scope->names.find(name); at != scope->names.end()) return &at->second;
    }
    return nullptr;
  }
};
using ScopePtr = std::shared_ptr<Scope>;

/// A macro or `caller` as a value, together with the scope that it was defined in. Owned by the rendering.
struct MacroObject {
  const Callable* callable;
  ScopePtr home;
};

/// A running loop. Elements pass the loop's filter one by one, as late as possible: a body may change what the filter sees.
struct LoopState {
  const For* node = nullptr;
  ScopePtr outer;  ///< empty after the loop
  std::size_t depth = 0;
  std::vector<Value> source;
  std::size_t next = 0;            ///< first element of `source` that the filter has not seen
  std::vector<Value> passed;       ///< elements that passed it
  std::size_t index = 0;           ///< of the current one in `passed`
  std::optional<Value> last_seen;  ///< arguments of the last loop.changed
};

/// Lives for one rendering. Errors: TemplateFailure with the line of the innermost node.
class Interpreter {
 public:
  explicit Interpreter(const ChatInputs& inputs);
  TrustedText run(const Program& program);

 private:
  enum class Flow : std::uint8_t { kNext, kBreak, kContinue };
  class Level;   // counts one evaluation level while it lives
  class Inside;  // makes a new scope the current one while it lives

  Flow run_block(const Block& block);
  Flow run(const Data& node);
  Flow run(const Output& node);
  Flow run(const If& node);
  Flow run(const For& node);
  Flow run(const Set& node);
  Flow run(const SetBlock& node);
  Flow run(const Macro& node);
  Flow run(const CallBlock& node);
  Flow run(const FilterBlock& node);
  Flow run(const Scoped& node);
  Flow run(const NamedBlock& node);
  Flow run(const UnsupportedTag& node);
  Flow run(const Break&) { return Flow::kBreak; }
  Flow run(const Continue&) { return Flow::kContinue; }
  /// Runs `block` with its output collected in `text`.
  Flow capture(const Block& block, TrustedText& text);
  void assign(Scope& scope, const Target& target, const Value& value);

  Flow run_loop(const For& node, const ScopePtr& outer, std::vector<Value> items, std::size_t depth);
  bool pull(LoopState& loop);
  Value loop_attribute(LoopState& loop, std::string_view name);
  Value call_loop_method(LoopState& loop, std::string_view name, const Arguments& arguments);
  Value recurse(LoopState& loop, const Arguments& arguments);

  Value evaluate(const Expr& expr);
  Value evaluate_optional(const ExprPtr& expr) { return expr != nullptr ? evaluate(*expr) : Value{}; }
  Value eval(const Literal& node) { return node.value; }
  Value eval(const Captured&) { return captured_; }
  Value eval(const Name& node);
  Value eval(const ListLiteral& node);
  Value eval(const DictLiteral& node);
  Value eval(const Not& node);
  Value eval(const Sign& node);
  Value eval(const Arithmetic& node);
  Value eval(const Concat& node);
  Value eval(const Logic& node);
  Value eval(const Comparison& node);
  Value eval(const Conditional& node);
  Value eval(const Attribute& node);
  Value eval(const Subscript& node);
  Value eval(const Slice& node);
  Value eval(const FilterCall& node);
  Value eval(const TestCall& node);

  Value eval(const Call& node) { return call(node, nullptr); }
  Arguments arguments_of(const ArgumentExprs& exprs);
  Value call(const Call& node, MacroObject* caller);
  Value call_value(const Value& callee, const Arguments& arguments);
  Value call_method(const Value& object, std::string_view name, const Arguments& arguments);
  Value call_macro(const MacroObject& macro, const Arguments& arguments);
  Value expand_macro(const Callable& callable, const ScopePtr& scope);
  Value call_global(std::string_view name, const Arguments& arguments);

  // chat_template.cpp
  Value make_range(const Arguments& arguments);
  Value make_dict(const Arguments& arguments);
  Value make_namespace(const Arguments& arguments);
  Value make_cycler(const Arguments& arguments, bool joins);
  Value strftime_now(const Arguments& arguments);

  const ChatInputs& inputs_;
  Budget budget_;
  ScopePtr root_;
  ScopePtr scope_;
  TrustedText output_;
  TrustedText* out_ = &output_;
  Value captured_;
  std::deque<Namespace> namespaces_;  // owned here, so that references among them cannot leak
  std::deque<LoopState> loops_;
  std::deque<MacroObject> macros_;
  std::deque<Cycler> cyclers_;
  int macro_depth_ = 0;
  int level_ = 0;
};

class Interpreter::Level {
 public:
  explicit Level(int& level) : level_(level) {
    if (level_ >= kMaxEvalDepth) fail(TemplateErrorKind::kLimit, "evaluates more than " + std::to_string(kMaxEvalDepth) + " levels deep");
    ++level_;
  }
  ~Level() { --level_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  int& level_;
};

class Interpreter::Inside {
 public:
  Inside(Interpreter& interpreter, ScopePtr scope) : current_(interpreter.scope_), before_(std::exchange(current_, std::move(scope))) {}
  ~Inside() { current_ = std::move(before_); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  ScopePtr& current_;
  ScopePtr before_;
};

inline ScopePtr scope_inside(const ScopePtr& outer) { return std::make_shared<Scope>(Scope{outer, {}}); }

/// `time` as `format` says: the conversions that Python's strftime has in the C locale. Errors: kUnsupported for others.
std::string format_time(std::string_view format, const std::tm& time);

}  // namespace kvpage::engine::chat
