/// \file Typed access to the fields of a trace line; what is missing or of the wrong type is thrown as text and reported once.
#pragma once

#include "engine/text/json_text.hpp"

#include <kvpage/base/types.hpp>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace kvpage::engine::detail {

/// Caught by TraceReader, which adds file and line.
struct BadField : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline constexpr std::int64_t kAnyNumber = std::int64_t{1} << 62;
/// Of tokens and positions: sums of a whole trace stay within 64 bits.
inline constexpr std::int64_t kAnyTokens = std::int64_t{1} << 32;

inline std::int64_t number(const nlohmann::json& value, const std::string& what, std::int64_t limit = kAnyNumber) {
  if (const auto integer = json_integer(value, 0, limit - 1)) return *integer;
  throw BadField(what + " must be an integer in [0, " + std::to_string(limit) + "), not " + shown(value));
}

inline const nlohmann::json& field(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) throw BadField(std::string("the field \"") + name + "\" is missing");
  return *found;
}

inline std::int64_t number_field(const nlohmann::json& object, const char* name, std::int64_t limit = kAnyNumber) {
  return number(field(object, name), std::string("\"") + name + "\"", limit);
}
/// 0 when the field is absent.
inline std::int64_t optional_number(const nlohmann::json& object, const char* name, std::int64_t limit = kAnyNumber) {
  return object.contains(name) ? number_field(object, name, limit) : 0;
}

/// A name: a string, or a number that stands for its digits.
inline std::string name(const nlohmann::json& value, const char* what) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer()) return value.dump();
  throw BadField(std::string("\"") + what + "\" must be a string or an integer, not " + shown(value));
}

inline const nlohmann::json& array(const nlohmann::json& value, const std::string& what) {
  if (!value.is_array()) throw BadField(what + " must be an array, not " + shown(value));
  return value;
}

inline std::vector<TokenId> token_ids(const nlohmann::json& value, const std::string& what) {
  std::vector<TokenId> ids;
  ids.reserve(array(value, what).size());
  for (const auto& id : value) ids.push_back(static_cast<TokenId>(number(id, "a token of " + what, std::int64_t{1} << 32)));
  return ids;
}

/// The element of an event's array behind its name.
inline const nlohmann::json& element(const nlohmann::json& event, std::size_t at) {
  if (at >= event.size()) throw BadField("an event of " + std::to_string(event.size()) + " elements is too short");
  return event[at];
}

}  // namespace kvpage::engine::detail
