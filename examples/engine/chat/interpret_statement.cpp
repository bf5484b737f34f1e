/// \file Execution of template statements.
#include "engine/chat/format_value.hpp"
#include "engine/chat/interpreter.hpp"
#include "engine/chat/trusted_roles.hpp"
#include "engine/chat/operators.hpp"

#include <utility>

namespace kvpage::engine::chat {

Interpreter::Interpreter(const ChatInputs& inputs) : inputs_(inputs) {
  const ScopePtr globals = scope_inside(nullptr);
  const auto define = [&](std::string_view name, Value value) { globals->names[name] = std::move(value); };
  for (const std::string_view name : {"cycler", "dict", "joiner", "lipsum", "namespace", "raise_exception", "range", "strftime_now"}) {
    define(name, Value::function(name));
  }
  define("messages", with_trusted_roles(inputs.messages));
  define("tools", inputs.tools);
  define("documents", Value::none());
  define("add_generation_prompt", Value::boolean(inputs.add_generation_prompt));
  define("bos_token", Value::text(TrustedText::trusted(inputs.bos_token)));
  define("eos_token", Value::text(TrustedText::trusted(inputs.eos_token)));
  for (const auto& [name, value] : inputs.arguments) define(name, value);
  root_ = scope_ = scope_inside(globals);
}

TrustedText Interpreter::run(const Program& program) {
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

Interpreter::Flow Interpreter::run(const Scoped& node) {
  const ScopePtr inner = scope_inside(scope_);
  for (const auto& [target, value] : node.names) assign(*inner, target, evaluate(*value));
  const Inside inside{*this, inner};
  return run_block(node.body);
}

Interpreter::Flow Interpreter::run(const NamedBlock& node) {
  if (node.is_required) fail_runtime("a required block is reached, and no other template fills it");
  const Inside inside{*this, scope_inside(node.is_scoped ? scope_ : root_)};
  return run_block(node.body);
}

Interpreter::Flow Interpreter::run(const UnsupportedTag& node) {
  fail(TemplateErrorKind::kUnsupported, "the tag {% " + node.name + " %} is not supported");
}

void Interpreter::assign(Scope& scope, const Target& target, const Value& value) {
  if (!target.attribute.empty()) {
    const Value* held = scope.find(target.name);
    Namespace* space = held != nullptr ? held->as_namespace() : nullptr;
    if (space == nullptr) fail_runtime("'" + target.name + "' is no namespace: its attributes cannot be set");
    budget_.charge(1 + space->attributes.size());
    space->set(target.attribute, value);
    return;
  }
  if (!target.unpacks) {
    scope.names[target.name] = value;
    return;
  }
  const std::vector<Value> values = elements(budget_, value);
  if (values.size() != target.parts.size()) {
    fail_runtime("cannot unpack " + std::to_string(values.size()) + " values into " + std::to_string(target.parts.size()) + " names");
  }
  for (std::size_t i = 0; i < values.size(); ++i) assign(scope, target.parts[i], values[i]);
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
  const ScopePtr outer = scope_;
  const Inside inside{*this, scope_inside(outer)};
  TrustedText text;
  if (const Flow flow = capture(node.body, text); flow != Flow::kNext) return flow;
  captured_ = Value::text(std::move(text));
  assign(*outer, node.target, evaluate(*node.value));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const FilterBlock& node) {
  const Inside inside{*this, scope_inside(scope_)};
  TrustedText text;
  if (const Flow flow = capture(node.body, text); flow != Flow::kNext) return flow;
  captured_ = Value::text(std::move(text));
  out_->append(to_text(budget_, evaluate(*node.value)));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const Macro& node) {
  scope_->names[node.callable.name] = Value::of(macros_.emplace_back(MacroObject{&node.callable, scope_}));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const CallBlock& node) {
  MacroObject& caller = macros_.emplace_back(MacroObject{&node.caller, scope_});
  out_->append(to_text(budget_, call(std::get<Call>(node.call->node), &caller)));
  return Flow::kNext;
}

}  // namespace kvpage::engine::chat
