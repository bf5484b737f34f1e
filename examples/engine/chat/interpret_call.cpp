/// \file Calls of macros, methods and global functions.
#include "engine/chat/format_value.hpp"
#include "engine/chat/interpreter.hpp"
#include "engine/chat/operators.hpp"

#include <algorithm>

namespace kvpage::engine::chat {
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
