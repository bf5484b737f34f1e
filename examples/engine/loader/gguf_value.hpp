/// \file GgufValue: one typed metadata value of a GGUF file, and the views that it converts to.
#pragma once

#include "engine/loader/byte_reader.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kvpage::engine {

/// Types of metadata values, numbered as in the file. Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
enum class GgufType : std::uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kFloat, kBool, kString, kArray, kU64, kI64, kDouble };

/// What the loader needs to know of one GgufType.
struct GgufTypeInfo {
  std::string_view name;
  std::uint32_t bytes;  ///< size of one value; 0 for strings and arrays, whose values state their size
};

inline constexpr std::array<GgufTypeInfo, 13> kGgufTypes{{{"u8", 1},
                                                          {"i8", 1},
                                                          {"u16", 2},
                                                          {"i16", 2},
                                                          {"u32", 4},
                                                          {"i32", 4},
                                                          {"float", 4},
                                                          {"bool", 1},
                                                          {"string", 0},
                                                          {"array", 0},
                                                          {"u64", 8},
                                                          {"i64", 8},
                                                          {"double", 8}}};

/// Requires: `type` has been checked against kGgufTypes.
constexpr const GgufTypeInfo& gguf_type_info(GgufType type) noexcept { return kGgufTypes[static_cast<std::size_t>(type)]; }

/// The bytes of a string, seen as text.
inline std::string_view as_text(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// One metadata value, checked by the parser and not copied out of the map.
struct GgufValue {
  GgufType type{};
  GgufType element_type{};           ///< of an array; else equal to `type`; kArray for an array of arrays, which nothing reads
  std::uint64_t count = 1;           ///< values in `bytes`
  std::span<const std::byte> bytes;  ///< the text of a string, the numbers, or the elements as stored

  /// "u32", "array of string", ...
  std::string type_name() const {
    const std::string element{gguf_type_info(element_type).name};
    return type == GgufType::kArray ? "array of " + element : element;
  }
};

/// The floating-point number in `bytes`, if its type is one.
constexpr std::optional<double> real_as(GgufType type, std::span<const std::byte> bytes) noexcept {
  if (type == GgufType::kFloat) return static_cast<double>(std::bit_cast<float>(load_little_endian<std::uint32_t>(bytes)));
  if (type == GgufType::kDouble) return std::bit_cast<double>(load_little_endian<std::uint64_t>(bytes));
  return std::nullopt;
}

/// The number in `bytes` as a T, whatever type stores it, if T has that very value: 2048.0 is 2048, true is 1, 0.5 is none.
template <StoredInteger T>
constexpr std::optional<T> integer_as(GgufType type, std::span<const std::byte> bytes) noexcept {
  const auto fit = [](std::integral auto value) -> std::optional<T> {
    const auto fitting = checked_cast<T>(value);
    return fitting ? std::optional<T>{*fitting} : std::nullopt;
  };
  switch (type) {
    case GgufType::kU8: return fit(load_little_endian<std::uint8_t>(bytes));
    case GgufType::kI8: return fit(load_little_endian<std::int8_t>(bytes));
    case GgufType::kU16: return fit(load_little_endian<std::uint16_t>(bytes));
    case GgufType::kI16: return fit(load_little_endian<std::int16_t>(bytes));
    case GgufType::kU32: return fit(load_little_endian<std::uint32_t>(bytes));
    case GgufType::kI32: return fit(load_little_endian<std::int32_t>(bytes));
    case GgufType::kU64: return fit(load_little_endian<std::uint64_t>(bytes));
    case GgufType::kI64: return fit(load_little_endian<std::int64_t>(bytes));
    case GgufType::kBool: return fit(load_little_endian<std::uint8_t>(bytes));
    case GgufType::kFloat:
    case GgufType::kDouble: break;
    default: return std::nullopt;
  }
  const double real = *real_as(type, bytes);
  const bool in_64_bits = real > -0x1p63 && real < 0x1p63;  // false for NaN
  if (!in_64_bits || static_cast<double>(static_cast<std::int64_t>(real)) != real) return std::nullopt;
  return fit(static_cast<std::int64_t>(real));
}

/// The number in `bytes` as the nearest float, whatever type stores it.
constexpr std::optional<float> float_as(GgufType type, std::span<const std::byte> bytes) noexcept {
  if (const auto real = real_as(type, bytes)) return static_cast<float>(*real);
  if (const auto number = integer_as<std::int64_t>(type, bytes)) return static_cast<float>(*number);
  if (const auto number = integer_as<std::uint64_t>(type, bytes)) return static_cast<float>(*number);
  return std::nullopt;
}

/// The truth in `bytes`: a bool, or a number that is 0 or 1.
constexpr std::optional<bool> bool_as(GgufType type, std::span<const std::byte> bytes) noexcept {
  const auto number = integer_as<std::int64_t>(type, bytes);
  return number && (*number == 0 || *number == 1) ? std::optional<bool>{*number == 1} : std::nullopt;
}

}  // namespace kvpage::engine
