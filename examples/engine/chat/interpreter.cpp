/// \file The interpreter: statements, loops, expressions and calls.
#include "engine/chat/interpreter.hpp"

#include "engine/chat/chat_template.hpp"
#include "engine/chat/functions.hpp"
#include "engine/chat/text.hpp"

#include <algorithm>
#include <limits>
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

Value Interpreter::evaluate(const Expr& expr) {
  try {
    const Level level{level_};
    budget_.charge(1);
    return std::visit([&](const auto& node) { return eval(node); }, expr.node);
  } catch (TemplateFailure& failure) {
    if (failure.error.line == 0) failure.error.line = expr.line;
    throw;
  }
}

Value Interpreter::eval(const Name& node) {
  const Value* held = scope_->find(node.name);
  return held != nullptr ? *held : Value::undefined(node.name);
}

Value Interpreter::eval(const ListLiteral& node) {
  std::vector<Value> items;
  for (const ExprPtr& item : node.items) items.push_back(evaluate(*item));
  return Value::list(std::move(items), node.form);
}

Value Interpreter::eval(const DictLiteral& node) {
  std::vector<Dict::Entry> entries;
  for (const auto& [key_expr, value_expr] : node.entries) {
    Value key = evaluate(*key_expr);
    entries.push_back({std::move(key), evaluate(*value_expr)});
  }
  return make_map(budget_, std::move(entries));
}

Value Interpreter::eval(const Not& node) { return Value::boolean(!evaluate(*node.operand).truthy()); }
Value Interpreter::eval(const Sign& node) { return negate(evaluate(*node.operand), node.negative); }

Value Interpreter::eval(const Arithmetic& node) {
  Value result = evaluate(*node.first);
  for (const auto& [op, operand] : node.rest) result = arithmetic(budget_, op, result, evaluate(*operand));
  return result;
}

Value Interpreter::eval(const Concat& node) {
  TrustedText text;
  for (const ExprPtr& part : node.parts) text.append(to_text(budget_, evaluate(*part)));
  return Value::text(std::move(text));
}

Value Interpreter::eval(const Logic& node) {
  Value value;
  for (const ExprPtr& operand : node.operands) {
    value = evaluate(*operand);
    if (value.truthy() != node.is_and) break;
  }
  return value;
}

Value Interpreter::eval(const Comparison& node) {
  Value left = evaluate(*node.first);
  for (const auto& [op, operand] : node.rest) {
    Value right = evaluate(*operand);
    if (!compare(budget_, op, left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::eval(const Conditional& node) {
  if (evaluate(*node.condition).truthy()) return evaluate(*node.then);
  return evaluate_optional(node.otherwise);
}

Value Interpreter::eval(const Attribute& node) {
  const Value object = evaluate(*node.object);
  if (LoopState* loop = object.as_loop()) return loop_attribute(*loop, node.name);
  if (const MacroObject* macro = object.as_macro()) {
    if (node.name == "name") return Value::text(macro->callable->name);
    fail(TemplateErrorKind::kUnsupported, "the attribute '" + node.name + "' of a macro is not supported");
  }
  Value held = attribute(budget_, object, node.name);
  const bool is_missing = held.is_undefined() && held.as_undefined()->name.empty();
  return is_missing ? Value::undefined(node.name) : held;
}

Value Interpreter::eval(const Subscript& node) {
  const Value object = evaluate(*node.object);
  const Value index = evaluate(*node.index);
  if (LoopState* loop = object.as_loop(); loop != nullptr && index.as_text() != nullptr)
    return loop_attribute(*loop, index.as_text()->bytes());
  return subscript(budget_, object, index);
}

Value Interpreter::eval(const Slice& node) {
  const Value object = evaluate(*node.object);
  const auto bound = [&](const ExprPtr& expr) -> std::optional<std::int64_t> {
    const Value value = expr != nullptr ? evaluate(*expr) : Value::none();
    if (value.is_none()) return std::nullopt;
    const auto whole = value.whole();
    if (!whole) fail_runtime("a slice needs integers, not " + std::string{value.type_name()});
    return whole->narrow().value_or(whole->is_negative() ? std::numeric_limits<std::int64_t>::min()
                                                         : std::numeric_limits<std::int64_t>::max());
  };
  SliceBounds bounds;
  bounds.start = bound(node.start);
  bounds.stop = bound(node.stop);
  bounds.step = bound(node.step);
  return slice(budget_, object, bounds);
}

Value Interpreter::eval(const FilterCall& node) {
  const Value operand = evaluate(*node.operand);
  const Arguments arguments = arguments_of(node.arguments);
  return require_filter(node.name).function(budget_, operand, arguments);
}

Value Interpreter::eval(const TestCall& node) {
  const Value operand = evaluate(*node.operand);
  const Arguments arguments = arguments_of(node.arguments);
  return Value::boolean(require_test(node.name).function(budget_, operand, arguments));
}

namespace {

[[noreturn]] void fail_too_many_arguments() {
  fail(TemplateErrorKind::kLimit, "a call has more than " + std::to_string(kMaxArguments) + " arguments");
}

}  // namespace

Arguments Interpreter::arguments_of(const ArgumentExprs& exprs) {
  Arguments arguments;
  for (const ExprPtr& expr : exprs.positional) arguments.positional.push_back(evaluate(*expr));
  for (const auto& [name, expr] : exprs.named) arguments.named.emplace_back(name, evaluate(*expr));
  if (exprs.more_positional != nullptr) {
    for (Value& value : elements(budget_, evaluate(*exprs.more_positional))) arguments.positional.push_back(std::move(value));
  }
  if (exprs.more_named != nullptr) {
    arguments.names_owner = evaluate(*exprs.more_named);
    const Dict* map = arguments.names_owner.as_dict();
    if (map == nullptr) fail_runtime("** needs a map, not " + std::string{arguments.names_owner.type_name()});
    for (const Dict::Entry& entry : map->entries()) {
      if (arguments.named.size() >= kMaxArguments) fail_too_many_arguments();  // before the search for repeated names grows
      budget_.charge(1);
      const TrustedText* name = entry.key.as_text();
      if (name == nullptr) fail_runtime("the name of an argument must be a string, not " + std::string{entry.key.type_name()});
      const auto is_same = [&](const auto& given) { return given.first == name->bytes(); };
      if (std::any_of(arguments.named.begin(), arguments.named.end(), is_same)) fail_runtime("a call gives '" + name->bytes() + "' twice");
      arguments.named.emplace_back(name->bytes(), entry.value);
    }
  }
  if (arguments.positional.size() > kMaxArguments || arguments.named.size() > kMaxArguments) fail_too_many_arguments();
  return arguments;
}

Value Interpreter::call(const Call& node, MacroObject* caller) {
  const auto with_caller = [&] {
    Arguments arguments = arguments_of(node.arguments);
    if (caller != nullptr) arguments.named.emplace_back("caller", Value::of(*caller));
    return arguments;
  };
  if (const auto* method = std::get_if<Attribute>(&node.callee->node)) {
    const Value object = evaluate(*method->object);
    return call_method(object, method->name, with_caller());
  }
  const Value callee = evaluate(*node.callee);
  return call_value(callee, with_caller());
}

Value Interpreter::call_value(const Value& callee, const Arguments& arguments) {
  if (const MacroObject* macro = callee.as_macro()) return call_macro(*macro, arguments);
  if (LoopState* loop = callee.as_loop()) return recurse(*loop, arguments);
  if (const Function* function = callee.as_function()) {
    return function->is_method ? call_method(function->receiver, function->name, arguments) : call_global(function->name, arguments);
  }
  if (Cycler* joiner = callee.as_cycler(); joiner != nullptr && joiner->joins) {
    const BoundArguments none{arguments, {}};
    return joiner->at++ == 0 ? Value::text(TrustedText{}) : joiner->items[0];
  }
  if (const Undefined* missing = callee.as_undefined()) {
    fail_runtime(missing->name.empty() ? "an undefined value is no function"
                                       : "the function '" + std::string{missing->name} + "' is not defined here");
  }
  fail_runtime("a " + std::string{callee.type_name()} + " is no function");
}

Value Interpreter::call_method(const Value& object, std::string_view name, const Arguments& arguments) {
  if (LoopState* loop = object.as_loop()) return call_loop_method(*loop, name, arguments);
  if (Cycler* cycler = object.as_cycler(); cycler != nullptr && !cycler->joins && (name == "next" || name == "reset")) {
    const BoundArguments none{arguments, {}};
    const std::size_t at = cycler->at;
    cycler->at = name == "next" ? (at + 1) % cycler->items.size() : 0;
    return name == "next" ? cycler->items[at] : Value::none();
  }
  if (const Undefined* missing = object.as_undefined()) {
    fail_runtime(missing->name.empty() ? "an undefined value has no methods" : "'" + std::string{missing->name} + "' is undefined");
  }
  if (is_python_attribute(object, name)) fail(TemplateErrorKind::kUnsupported, "the method '" + std::string{name} + "' is not supported");
  if (const NamedFunction* method = find_method(object, name)) return method->function(budget_, object, arguments);
  const Value held = attribute(budget_, object, name);
  if (held.is_undefined()) fail_runtime(std::string{object.type_name()} + " has no method '" + std::string{name} + "'");
  return call_value(held, arguments);
}

/// Binds the arguments as Python does, except that a missing one without a default is undefined.
Value Interpreter::call_macro(const MacroObject& macro, const Arguments& arguments) {
  const Callable& callable = *macro.callable;
  const std::vector<Parameter>& parameters = callable.parameters;
  const ScopePtr scope = scope_inside(macro.home);
  const std::size_t bound = std::min(parameters.size(), arguments.positional.size());
  for (std::size_t i = 0; i < bound; ++i) scope->names[parameters[i].name] = arguments.positional[i];
  if (arguments.positional.size() > bound && !callable.reads_varargs) {
    fail_runtime("the macro '" + callable.name + "' takes at most " + std::to_string(parameters.size()) + " arguments, not " +
                 std::to_string(arguments.positional.size()));
  }
  std::vector<Dict::Entry> others;
  for (const auto& [given, value] : arguments.named) {
    const std::string_view name = given;
    const auto is_named = [&](const Parameter& parameter) { return parameter.name == name; };
    const auto at = std::find_if(parameters.begin() + static_cast<std::ptrdiff_t>(bound), parameters.end(), is_named);
    if (at != parameters.end()) {
      scope->names[at->name] = value;
    } else if (name == "caller" && callable.reads_caller) {
      scope->names["caller"] = value;
    } else if (callable.reads_kwargs) {
      others.push_back({Value::text(std::string{name}), value});
    } else {
      fail_runtime("the macro '" + callable.name + "' has no parameter '" + std::string{name} + "' left to fill");
    }
  }
  if (callable.reads_caller) scope->names.try_emplace("caller", Value::undefined("caller"));
  if (callable.reads_kwargs) scope->names["kwargs"] = make_map(budget_, std::move(others));
  if (callable.reads_varargs) {
    const auto rest = arguments.positional.begin() + static_cast<std::ptrdiff_t>(bound);
    scope->names["varargs"] = Value::list({rest, arguments.positional.end()}, ListForm::kTuple);
  }
  return expand_macro(callable, scope);
}

Value Interpreter::expand_macro(const Callable& callable, const ScopePtr& scope) {
  if (macro_depth_ >= kMaxDepth) fail(TemplateErrorKind::kLimit, "macros call each other more than " + std::to_string(kMaxDepth) + " deep");
  const Inside inside{*this, scope};
  ++macro_depth_;
  for (const Parameter& parameter : callable.parameters) {
    if (scope->names.contains(parameter.name)) continue;
    Value value = parameter.fallback != nullptr ? evaluate(*parameter.fallback) : Value::undefined(parameter.name);
    scope->names[parameter.name] = std::move(value);
  }
  TrustedText text;
  capture(callable.body, text);
  --macro_depth_;
  return Value::text(std::move(text));
}

Value Interpreter::call_global(std::string_view name, const Arguments& arguments) {
  if (name == "range") return make_range(arguments);
  if (name == "namespace") return make_namespace(arguments);
  if (name == "strftime_now") return strftime_now(arguments);
  if (name == "dict") return make_dict(arguments);
  if (name == "cycler" || name == "joiner") return make_cycler(arguments, name == "joiner");
  if (name == "raise_exception") {
    const BoundArguments bound{arguments, {"message"}, 1};
    const std::string message = to_text(budget_, *bound[0]).bytes();
    fail(TemplateErrorKind::kRaised, message.empty() ? "the template refuses these messages and does not say why" : message);
  }
  fail(TemplateErrorKind::kUnsupported, "the function '" + std::string{name} + "' is not supported");
}

}  // namespace kvpage::engine::chat
