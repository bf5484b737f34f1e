/// \file The fixed lists of filters, tests and methods that a template may call.
#pragma once

#include "engine/chat/arguments.hpp"
#include "engine/chat/budget.hpp"
#include "engine/chat/value.hpp"

#include <string_view>

namespace kvpage::engine::chat {

/// `value | name(arguments)` and `value.name(arguments)`.
using ValueFunction = Value (*)(Budget&, const Value&, const Arguments&);
/// `value is name(arguments)`.
using TestFunction = bool (*)(Budget&, const Value&, const Arguments&);

struct NamedFunction {
  std::string_view name;
  ValueFunction function;
};
struct NamedTest {
  std::string_view name;
  TestFunction function;
};

/// nullptr when the name is not in the list.
ValueFunction find_filter(std::string_view name);
TestFunction find_test(std::string_view name);

/// The method `name` of this receiver; nullptr when it has none. `loop.cycle` is known to the interpreter alone.
ValueFunction find_method(const Value& receiver, std::string_view name);
/// True when any kind of value has a method of that name.
bool is_method_name(std::string_view name);
/// True when Jinja would find a Python method under `receiver.name` instead of a key.
bool hides_key(const Value& receiver, std::string_view name);

}  // namespace kvpage::engine::chat
