/// \file Numbers as text: the one way in which flags and files write them.
#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace kvpage::engine {

/// The whole text as an integer in [least, most]: decimal digits, a `-` in front of a negative one. No other sign, no space, no exponent,
/// no other base and no zeros in front, which other readers take for octal. Nothing is rounded, wrapped or cut off.
template <std::integral T>
[[nodiscard]] std::optional<T> parse_integer(std::string_view text, T least = std::numeric_limits<T>::min(),
                                             T most = std::numeric_limits<T>::max()) noexcept {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.empty() || (digits.size() > 1 && digits.front() == '0')) return std::nullopt;
  T value{};
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc{} || result.ptr != end || value < least || value > most) return std::nullopt;
  return value;
}

/// The whole text as a finite number in [least, most]: decimal digits with a point, an exponent and a `-` where wanted.
[[nodiscard]] inline std::optional<double> parse_real(std::string_view text, double least, double most) noexcept {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (text.empty() || result.ec != std::errc{} || result.ptr != end || !std::isfinite(value)) return std::nullopt;
  if (value < least || value > most) return std::nullopt;
  return value;
}

/// Bytes: an integer, which K, M, G, T, P or E (also as KB or KiB, in either case) multiplies by 1024, 1024^2 and so on; B alone by 1.
[[nodiscard]] std::optional<std::int64_t> parse_bytes(std::string_view text, std::int64_t least, std::int64_t most) noexcept;

/// "an integer in [1, 128]", as refusals name what they want.
template <std::integral T>
[[nodiscard]] std::string integer_range(T least, T most) {
  return "an integer in [" + std::to_string(least) + ", " + std::to_string(most) + "]";
}
/// The fewest digits that say the number again: "0.01", "100.0".
[[nodiscard]] std::string real_text(double value);
/// "a number in [0.0, 0.5]".
[[nodiscard]] std::string real_range(double least, double most);

}  // namespace kvpage::engine
