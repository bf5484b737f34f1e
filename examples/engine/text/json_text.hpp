/// \file JSON from files: nothing is rounded, dropped or repaired on the way, and what is wrong has its place.
#pragma once

#include <kvpage/base/expected.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvpage::engine {

/// Why a text is no JSON: what is wrong, and at which byte (from 1).
struct JsonFault {
  std::string what;
};

/// What builds a value from the events of a JSON text; an event that returns false ends the reading and has set the fault.
class JsonEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool binary(binary_t&) final { return false; }  // no text has one
  bool parse_error(std::size_t position, const std::string& token, const nlohmann::detail::exception& error) final;

  JsonFault fault;
};

/// Gives the events of `text`. Errors: false and the fault in `events`: bytes that are no UTF-8, broken syntax, a number beyond 1.8e308.
[[nodiscard]] bool read_json(std::string_view text, JsonEvents& events);

/// The text as JSON. An integer beyond 64 bits, which the library would round to a double, is kept as its digits in a json::binary: no
/// reader takes that for a number, and errors show it as it was written.
/// Errors: bytes that are no UTF-8, broken syntax, a key that an object has twice.
[[nodiscard]] Expected<nlohmann::json, JsonFault> parse_json(std::string_view text);

/// The value as an integer in [least, most]; nothing for any other value. An integer is digits alone: 1.0 and 1e3 are none, in flags and
/// in files.
[[nodiscard]] std::optional<std::int64_t> json_integer(const nlohmann::json& value, std::int64_t least, std::int64_t most);

/// The first byte that is no UTF-8, as "byte 3 (0xff) is not UTF-8"; empty when all is.
[[nodiscard]] std::string invalid_utf8(std::string_view text);

/// A value as errors show it: ASCII, shortened, and lists and objects by their size alone.
[[nodiscard]] std::string shown(const nlohmann::json& value);

}  // namespace kvpage::engine
