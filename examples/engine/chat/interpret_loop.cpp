/// \file Loops of templates, and the object `loop` that their bodies see.
#include "engine/chat/format_value.hpp"
#include "engine/chat/interpreter.hpp"
#include "engine/chat/operators.hpp"

#include <utility>

namespace kvpage::engine::chat {

/// Lets the next element of the source that passes the filter through; false when there is none.
bool Interpreter::pull(LoopState& loop) {
  while (loop.next < loop.source.size()) {
    budget_.charge(1);
    const Value& item = loop.source[loop.next++];
    if (loop.node->filter != nullptr) {
      const Inside inside{*this, scope_inside(loop.outer)};
      assign(*scope_, loop.node->target, item);
      if (!evaluate(*loop.node->filter).truthy()) continue;
    }
    loop.passed.push_back(item);
    return true;
  }
  return false;
}

Interpreter::Flow Interpreter::run(const For& node) {
  return run_loop(node, scope_, elements(budget_, evaluate(*node.iterable)), 0);
}

Interpreter::Flow Interpreter::run_loop(const For& node, const ScopePtr& outer, std::vector<Value> items, std::size_t depth) {
  LoopState& loop = loops_.emplace_back();
  loop.node = &node, loop.outer = outer, loop.depth = depth, loop.source = std::move(items);
  bool ran = false;
  while (loop.index < loop.passed.size() || pull(loop)) {
    ran = true;
    const Inside inside{*this, scope_inside(outer)};
    assign(*scope_, node.target, loop.passed[loop.index]);
    scope_->names["loop"] = Value::of(loop);
    if (run_block(node.body) == Flow::kBreak) break;
    ++loop.index;
  }
  loop.source = {};
  loop.outer.reset();
  if (ran) return Flow::kNext;
  const Inside inside{*this, scope_inside(outer)};
  return run_block(node.otherwise);
}

/// loop(items): the whole loop once more, one level deeper, as a text.
Value Interpreter::recurse(LoopState& loop, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"items"}, 1};
  if (!loop.node->is_recursive || loop.outer == nullptr) fail_runtime("loop can be called in the body of a recursive loop alone");
  if (macro_depth_ >= kMaxDepth) fail(TemplateErrorKind::kLimit, "a loop calls itself more than " + std::to_string(kMaxDepth) + " deep");
  ++macro_depth_;
  TrustedText text;
  TrustedText* const before = std::exchange(out_, &text);
  run_loop(*loop.node, loop.outer, elements(budget_, *bound[0]), loop.depth + 1);
  out_ = before;
  --macro_depth_;
  return Value::text(std::move(text));
}

Value Interpreter::call_loop_method(LoopState& loop, std::string_view name, const Arguments& arguments) {
  if (name == "cycle") {
    if (arguments.positional.empty()) fail_runtime("loop.cycle needs values");
    return arguments.positional[loop.index % arguments.positional.size()];
  }
  if (name != "changed") fail_runtime("loop has no method '" + std::string{name} + "'");
  Value seen = Value::list(arguments.positional, ListForm::kTuple);
  const bool changed = !loop.last_seen || !equal(budget_, *loop.last_seen, seen);
  loop.last_seen = std::move(seen);
  return Value::boolean(changed);
}

Value Interpreter::loop_attribute(LoopState& loop, std::string_view name) {
  const auto number = [](std::size_t value) { return Value::integer(static_cast<std::int64_t>(value)); };
  const auto has_next = [&] { return loop.index + 1 < loop.passed.size() || pull(loop); };
  const auto total = [&] {
    while (pull(loop)) {
    }
    return loop.passed.size();
  };
  if (name == "index0") return number(loop.index);
  if (name == "index") return number(loop.index + 1);
  if (name == "first") return Value::boolean(loop.index == 0);
  if (name == "last") return Value::boolean(!has_next());
  if (name == "length") return number(total());
  if (name == "revindex") return number(total() - loop.index);
  if (name == "revindex0") return number(total() - loop.index - 1);
  if (name == "depth") return number(loop.depth + 1);
  if (name == "depth0") return number(loop.depth);
  if (name == "previtem") return loop.index > 0 ? loop.passed[loop.index - 1] : Value::undefined("previtem");
  if (name == "nextitem") return has_next() ? loop.passed[loop.index + 1] : Value::undefined("nextitem");
  fail(TemplateErrorKind::kUnsupported, "loop." + std::string{name} + " is not supported");
}

}  // namespace kvpage::engine::chat
