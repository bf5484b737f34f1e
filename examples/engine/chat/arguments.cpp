/// \file Matching of call arguments to parameter names.
#include "engine/chat/arguments.hpp"

#include "engine/chat/template_error.hpp"

#include <algorithm>

namespace kvpage::engine::chat {

BoundArguments::BoundArguments(const Arguments& arguments, std::initializer_list<std::string_view> names, std::size_t required)
    : names_(names), values_(names.size(), nullptr) {
  if (arguments.positional.size() > names_.size()) {
    fail_runtime("a call takes at most " + std::to_string(names_.size()) + " arguments, not " +
                 std::to_string(arguments.positional.size()));
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto at = std::find(names_.begin(), names_.end(), name);
    if (at == names_.end()) fail_runtime("a call has no parameter '" + std::string{name} + "'");
    const Value*& slot = values_[static_cast<std::size_t>(at - names_.begin())];
    if (slot != nullptr) fail_runtime("a call gives '" + std::string{name} + "' twice");
    slot = &value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (values_[i] == nullptr) fail_runtime("a call lacks its argument '" + std::string{names_[i]} + "'");
  }
}

std::int64_t BoundArguments::integer(std::size_t index, std::int64_t fallback) const {
  const Value* value = values_[index];
  if (value == nullptr || value->is_none()) return fallback;
  if (const std::int64_t* number = value->as_integer()) return *number;
  if (const bool* flag = value->as_bool()) return *flag ? 1 : 0;
  fail_runtime("the argument '" + std::string{names_[index]} + "' must be an integer, not " + std::string{value->type_name()});
}

bool BoundArguments::truth(std::size_t index, bool fallback) const {
  return values_[index] == nullptr ? fallback : values_[index]->truthy();
}

const TrustedText* BoundArguments::text(std::size_t index) const {
  const Value* value = values_[index];
  if (value == nullptr || value->is_none()) return nullptr;
  if (const TrustedText* held = value->as_text()) return held;
  fail_runtime("the argument '" + std::string{names_[index]} + "' must be a string, not " + std::string{value->type_name()});
}

}  // namespace kvpage::engine::chat
