/// \file The arguments of a call, and how a function reads them by position or by name.
#pragma once

#include "engine/chat/value.hpp"

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvpage::engine::chat {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string_view, Value>> named;
  Value names_owner = {};  ///< the map whose keys `named` points into, if one was unpacked
};

/// Arguments matched to the parameter names of a built-in function; an absent one is nullptr.
class BoundArguments {
 public:
  /// Errors: kRuntime for too many arguments, an unknown name, one given twice, or less than `required`.
  BoundArguments(const Arguments& arguments, std::initializer_list<std::string_view> names, std::size_t required = 0);

  const Value* operator[](std::size_t index) const { return values_[index]; }
  /// Absent and none give `fallback`. Errors: kRuntime when the value is of another type.
  std::int64_t integer(std::size_t index, std::int64_t fallback) const;
  bool truth(std::size_t index, bool fallback) const;
  const TrustedText* text(std::size_t index) const;  ///< nullptr when absent or none

 private:
  std::vector<std::string_view> names_;
  std::vector<const Value*> values_;  // [names]
};

}  // namespace kvpage::engine::chat
