#include "engine/text/number_text.hpp"

#include <kvpage/base/checked.hpp>

#include <nlohmann/json.hpp>

#include <array>
#include <cstddef>

namespace kvpage::engine {
namespace {

/// The factor of a unit; 0 for what is none.
std::int64_t factor_of(std::string_view unit) noexcept {
  constexpr std::string_view kPrefixes = "kmgtpe";
  std::array<char, 3> lower{};
  if (unit.size() > lower.size()) return 0;
  for (std::size_t i = 0; i < unit.size(); ++i) {
    lower[i] = unit[i] >= 'A' && unit[i] <= 'Z' ? static_cast<char>(unit[i] - 'A' + 'a') : unit[i];
  }
  const std::string_view text{lower.data(), unit.size()};
  if (text.empty() || text == "b") return 1;
  const std::size_t power = kPrefixes.find(text.front());
  const std::string_view rest = text.substr(1);
  if (power == std::string_view::npos || !(rest.empty() || rest == "b" || rest == "ib")) return 0;
  return std::int64_t{1} << (10 * (power + 1));
}

}  // namespace

std::optional<std::int64_t> parse_bytes(std::string_view text, std::int64_t least, std::int64_t most) noexcept {
  const std::size_t end = text.find_first_not_of("-0123456789");
  const std::string_view digits = text.substr(0, end);
  const auto count = parse_integer<std::int64_t>(digits);
  const std::int64_t factor = factor_of(text.substr(digits.size()));
  if (!count || factor == 0) return std::nullopt;
  const auto bytes = checked_mul(*count, factor);
  if (!bytes || *bytes < least || *bytes > most) return std::nullopt;
  return *bytes;
}

std::string real_text(double value) { return nlohmann::json(value).dump(); }

std::string real_range(double least, double most) { return "a number in [" + real_text(least) + ", " + real_text(most) + "]"; }

}  // namespace kvpage::engine
