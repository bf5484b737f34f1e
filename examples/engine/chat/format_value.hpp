/// \file Values as text: Python's str and repr, and JSON.
#pragma once

#include "engine/chat/budget.hpp"
#include "engine/chat/value.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace kvpage::engine::chat {

/// str(value): what an output or `~` writes. Errors: kRuntime for values without a text (iterators, namespaces, loop).
TrustedText to_text(Budget& budget, const Value& value);
/// repr(value) and ascii(value); nothing in them is trusted.
TrustedText to_repr(Budget& budget, const Value& value);
TrustedText to_ascii(Budget& budget, const Value& value);

/// The arguments of json.dumps that templates use.
struct JsonStyle {
  std::optional<std::string> indent;  ///< one level; absent = one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool ensure_ascii = false;
  bool sort_keys = false;
};
/// json.dumps(value). Errors: kRuntime for values that JSON cannot hold, undefined among them.
std::string to_json(Budget& budget, const Value& value, const JsonStyle& style);

/// The shortest digits that give the number back, laid out as Python does (`1.0`, `1e-05`).
std::string float_text(double value);

}  // namespace kvpage::engine::chat
