/// \file Evaluation of template expressions.
#include "engine/chat/format_value.hpp"
#include "engine/chat/interpreter.hpp"
#include "engine/chat/operators.hpp"

#include <limits>

namespace kvpage::engine::chat {

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

}  // namespace kvpage::engine::chat
