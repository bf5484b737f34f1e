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
  ValueFunction function;  ///< nullptr: Jinja has it, but it is not supported here
};
struct NamedTest {
  std::string_view name;
  TestFunction function;
};

/// nullptr when the name is not in the list.
const NamedFunction* find_filter(std::string_view name);
const NamedTest* find_test(std::string_view name);

/// The same for one that is called. Errors: kUnsupported.
const NamedFunction& require_filter(std::string_view name);
const NamedTest& require_test(std::string_view name);

/// The method `name` of this receiver; nullptr when it has none. `loop.cycle` and the like are known to the interpreter alone.
const NamedFunction* find_method(const Value& receiver, std::string_view name);
/// True when Python has something under `receiver.name` that is not supported here: a key of that name would be hidden.
bool is_python_attribute(const Value& receiver, std::string_view name);

}  // namespace kvpage::engine::chat
