/// \file Execution of template statements.
#include "engine/chat/format_value.hpp"
#include "engine/chat/interpreter.hpp"
#include "engine/chat/trusted_roles.hpp"
#include "engine/chat/operators.hpp"

#include <utility>

namespace kvpage::engine::chat {

Interpreter::Interpreter(const ChatInputs& inputs) : inputs_(inputs) {
  const auto define = [&](std::string_view name, Value value) { globals_.names[name] = Binding{std::move(value)}; };
  define("messages", with_trusted_roles(inputs.messages));
  define("tools", inputs.tools);
  define("documents", Value::none());
  define("add_generation_prompt", Value::boolean(inputs.add_generation_prompt));
  define("bos_token", Value::text(TrustedText::trusted(inputs.bos_token)));
  define("eos_token", Value::text(TrustedText::trusted(inputs.eos_token)));
  for (const auto& [name, value] : inputs.arguments) define(name, value);
}

TrustedText Interpreter::run(const Program& program) {
  Scope scope{&globals_, {}};
  scope_ = &scope;
  run_block(program.body);
  return std::move(output_);
}

Interpreter::Flow Interpreter::run_block(const Block& block) {
  const Level level{level_};
  for (const Stmt& statement : block) {
    try {
      budget_.charge(1);
      const Flow flow = std::visit([&](const auto& node) { return run(node); }, statement.node);
      if (flow != Flow::kNext) return flow;
    } catch (TemplateFailure& failure) {
      if (failure.error.line == 0) failure.error.line = statement.line;
      throw;
    }
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const Data& node) {
  budget_.charge_bytes(node.text.size());
  out_->append(node.text);
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const Output& node) {
  out_->append(to_text(budget_, evaluate(*node.value)));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const If& node) {
  for (const auto& [condition, body] : node.branches) {
    if (evaluate(*condition).truthy()) return run_block(body);
  }
  return run_block(node.otherwise);
}

/// Lets the next element of the source that passes the filter through; false when there is none.
bool Interpreter::pull(LoopState& loop) {
  while (loop.next < loop.source.size()) {
    budget_.charge(1);
    const Value& item = loop.source[loop.next++];
    if (loop.node->filter != nullptr) {
      Scope scope{loop.outer, {}};
      assign(scope, loop.node->target, item);
      Scope* const before = std::exchange(scope_, &scope);
      const bool passes = evaluate(*loop.node->filter).truthy();
      scope_ = before;
      if (!passes) continue;
    }
    loop.passed.push_back(item);
    return true;
  }
  return false;
}

Interpreter::Flow Interpreter::run(const For& node) {
  LoopState& loop = loops_.emplace_back(LoopState{&node, scope_, elements(budget_, evaluate(*node.iterable)), 0, {}, 0});
  Scope* const outer = scope_;
  bool ran = false;
  while (loop.index < loop.passed.size() || pull(loop)) {
    ran = true;
    Scope scope{outer, {}};
    assign(scope, node.target, loop.passed[loop.index]);
    scope.names["loop"] = Binding{Value::of(loop)};
    scope_ = &scope;
    const Flow flow = run_block(node.body);
    scope_ = outer;
    if (flow == Flow::kBreak) break;
    ++loop.index;
  }
  loop.source.clear();
  loop.source.shrink_to_fit();
  if (ran) return Flow::kNext;
  Scope scope{outer, {}};
  scope_ = &scope;
  const Flow flow = run_block(node.otherwise);
  scope_ = outer;
  return flow;
}

Interpreter::Flow Interpreter::run(const Scoped& node) {
  Scope scope{scope_, {}};
  Scope* const outer = std::exchange(scope_, &scope);
  const Flow flow = run_block(node.body);
  scope_ = outer;
  return flow;
}

void Interpreter::assign(Scope& scope, const Target& target, const Value& value) {
  if (!target.attribute.empty()) {
    const Binding* binding = scope.find(target.names[0]);
    Namespace* space = binding != nullptr ? binding->value.as_namespace() : nullptr;
    if (space == nullptr) fail_runtime("'" + target.names[0] + "' is no namespace: its attributes cannot be set");
    budget_.charge(1 + space->attributes.size());
    space->set(target.attribute, value);
    return;
  }
  if (!target.unpacks) {
    scope.names[target.names[0]] = Binding{value};
    return;
  }
  const std::vector<Value> parts = elements(budget_, value);
  if (parts.size() != target.names.size()) {
    fail_runtime("cannot unpack " + std::to_string(parts.size()) + " values into " + std::to_string(target.names.size()) + " names");
  }
  for (std::size_t i = 0; i < parts.size(); ++i) scope.names[target.names[i]] = Binding{parts[i]};
}

Interpreter::Flow Interpreter::run(const Set& node) {
  assign(*scope_, node.target, evaluate(*node.value));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::capture(const Block& block, TrustedText& text) {
  TrustedText* const outer = std::exchange(out_, &text);
  const Flow flow = run_block(block);
  out_ = outer;
  return flow;
}

Interpreter::Flow Interpreter::run(const SetBlock& node) {
  TrustedText text;
  if (const Flow flow = capture(node.body, text); flow != Flow::kNext) return flow;
  captured_ = Value::text(std::move(text));
  assign(*scope_, node.target, evaluate(*node.value));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const Macro& node) {
  scope_->names[node.callable.name] = Binding{Value{}, &node.callable, scope_};
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const CallBlock& node) {
  const Binding caller{Value{}, &node.caller, scope_};
  out_->append(to_text(budget_, call(std::get<Call>(node.call->node), &caller)));
  return Flow::kNext;
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
  if (name == "depth") return number(1);  // deeper only in recursive loops, which are not supported
  if (name == "depth0") return number(0);
  if (name == "previtem") return loop.index > 0 ? loop.passed[loop.index - 1] : Value::undefined("previtem");
  if (name == "nextitem") return has_next() ? loop.passed[loop.index + 1] : Value::undefined("nextitem");
  fail(TemplateErrorKind::kUnsupported, "loop." + std::string{name} + " is not supported");
}

}  // namespace kvpage::engine::chat
