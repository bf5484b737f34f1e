/// \file Calls of macros, methods and global functions.
#include "engine/chat/format_value.hpp"
#include "engine/chat/interpreter.hpp"
#include "engine/chat/operators.hpp"

#include <algorithm>

namespace kvpage::engine::chat {

Arguments Interpreter::arguments_of(const ArgumentExprs& exprs) {
  Arguments arguments;
  for (const ExprPtr& expr : exprs.positional) arguments.positional.push_back(evaluate(*expr));
  for (const auto& [name, expr] : exprs.named) arguments.named.emplace_back(name, evaluate(*expr));
  return arguments;
}

Value Interpreter::call(const Call& node, const Binding* caller) {
  const Binding* binding = scope_->find(node.name);
  if (binding != nullptr && binding->callable == nullptr) {
    fail_runtime("'" + node.name + "' is no function but " + std::string{binding->value.type_name()});
  }
  const Arguments arguments = arguments_of(node.arguments);
  if (binding != nullptr) return call_macro(*binding, arguments, caller);
  if (caller != nullptr) fail_runtime("{% call %} needs a macro; '" + node.name + "' is none here");
  return call_global(node.name, arguments);
}

Value Interpreter::call_macro(const Binding& macro, const Arguments& arguments, const Binding* caller) {
  const Callable& callable = *macro.callable;
  if (macro_depth_ >= kMaxDepth) fail(TemplateErrorKind::kLimit, "macros call each other more than " + std::to_string(kMaxDepth) + " deep");
  if (arguments.positional.size() > callable.parameters.size()) {
    fail_runtime("the macro '" + callable.name + "' takes at most " + std::to_string(callable.parameters.size()) + " arguments, not " +
                 std::to_string(arguments.positional.size()));
  }
  Scope scope{macro.home, {}};
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) scope.names[callable.parameters[i].name] = Binding{arguments.positional[i]};
  for (const auto& [given, value] : arguments.named) {
    const std::string_view name = given;
    const auto known = [&](const Parameter& parameter) { return parameter.name == name; };
    if (std::none_of(callable.parameters.begin(), callable.parameters.end(), known)) {
      fail_runtime("the macro '" + callable.name + "' has no parameter '" + std::string{name} + "'");
    }
    if (!scope.names.emplace(name, Binding{value}).second)
      fail_runtime("the macro '" + callable.name + "' gets '" + std::string{name} + "' twice");
  }
  if (caller != nullptr) scope.names["caller"] = *caller;

  Scope* const outer = std::exchange(scope_, &scope);
  ++macro_depth_;
  for (const Parameter& parameter : callable.parameters) {
    if (scope.names.contains(parameter.name)) continue;
    scope.names[parameter.name] = Binding{parameter.fallback != nullptr ? evaluate(*parameter.fallback) : Value::undefined(parameter.name)};
  }
  TrustedText text;
  capture(callable.body, text);
  --macro_depth_;
  scope_ = outer;
  return Value::text(std::move(text));
}

Value Interpreter::eval(const MethodCall& node) {
  const Value object = evaluate(*node.object);
  const Arguments arguments = arguments_of(node.arguments);
  if (const LoopState* loop = object.as_loop(); loop != nullptr && node.name == "cycle") {
    if (arguments.positional.empty()) fail_runtime("loop.cycle needs values");
    return arguments.positional[loop->index % arguments.positional.size()];
  }
  if (const Undefined* missing = object.as_undefined()) {
    fail_runtime(missing->name.empty() ? "an undefined value has no methods" : "'" + std::string{missing->name} + "' is undefined");
  }
  const ValueFunction method = find_method(object, node.name);
  if (method == nullptr) fail_runtime(std::string{object.type_name()} + " has no method '" + node.name + "'");
  return method(budget_, object, arguments);
}

Value Interpreter::call_global(std::string_view name, const Arguments& arguments) {
  if (name == "range") return make_range(arguments);
  if (name == "namespace") return make_namespace(arguments);
  if (name == "strftime_now") return strftime_now(arguments);
  if (name == "dict") {
    if (!arguments.positional.empty()) fail(TemplateErrorKind::kUnsupported, "dict() of a value is not supported");
    std::vector<Dict::Entry> entries;
    for (const auto& [key, value] : arguments.named) entries.push_back({TrustedText::trusted(std::string{key}), value});
    return Value::dict(std::move(entries));
  }
  if (name == "raise_exception") {
    const BoundArguments bound{arguments, {"message"}, 1};
    fail(TemplateErrorKind::kRaised, to_text(budget_, *bound[0]).bytes());
  }
  fail_runtime("the function '" + std::string{name} + "' is not defined here");
}

Value Interpreter::make_range(const Arguments& arguments) {
  const BoundArguments bound{arguments, {"first", "second", "step"}, 1};
  const bool one = bound[1] == nullptr;
  const std::int64_t start = one ? 0 : bound.integer(0, 0), stop = bound.integer(one ? 0 : 1, 0), step = bound.integer(2, 1);
  if (step == 0) fail_runtime("a range has step zero");
  std::vector<Value> items;
  for (std::int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<std::int64_t>(items.size()) >= kMaxRange) {
      fail(TemplateErrorKind::kLimit, "a range of more than " + std::to_string(kMaxRange) + " elements");
    }
    items.push_back(Value::integer(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  budget_.charge(1 + items.size());
  return Value::list(std::move(items), ListForm::kRange);
}

Value Interpreter::make_namespace(const Arguments& arguments) {
  Namespace& space = namespaces_.emplace_back();
  for (const Value& value : arguments.positional) {
    if (value.as_dict() == nullptr) fail_runtime("namespace() needs maps or named values, not " + std::string{value.type_name()});
    budget_.charge(1 + value.as_dict()->entries().size());
    for (const Dict::Entry& entry : value.as_dict()->entries()) space.set(entry.key.bytes(), entry.value);
  }
  for (const auto& [name, value] : arguments.named) space.set(name, value);
  return Value::of(space);
}

Value Interpreter::strftime_now(const Arguments& arguments) {
  const BoundArguments bound{arguments, {"format"}, 1};
  const TrustedText* format = bound.text(0);
  if (format == nullptr) fail_runtime("strftime_now needs a format");
  if (!inputs_.local_time) fail_runtime("strftime_now needs the time, which this caller does not give");
  budget_.charge_bytes(format->size());
  return Value::text(format_time(format->bytes(), inputs_.local_time()));
}

std::string format_time(std::string_view format, const std::tm& time) {
  constexpr std::string_view kConversions = "aAbBdHIjmMpSyYeFTDR%";
  std::string out;
  for (std::size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%') {
      out.push_back(format[at]);
      continue;
    }
    std::size_t letter = at + 1;
    if (letter < format.size() && format[letter] == '-') ++letter;  // no leading zero
    if (letter >= format.size() || kConversions.find(format[letter]) == std::string_view::npos) {
      fail(TemplateErrorKind::kUnsupported, "the time format '" + std::string{format.substr(at, 3)} + "' is not supported");
    }
    const std::string one{format.substr(at, letter - at + 1)};
    char buffer[64];
    out.append(buffer, std::strftime(buffer, sizeof buffer, one.c_str(), &time));
    at = letter;
  }
  return out;
}

}  // namespace kvpage::engine::chat
