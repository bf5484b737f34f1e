/// \file Reading and writing of split file names.
#include "engine/loader/split_name.hpp"

#include <charconv>
#include <cstdio>
#include <string_view>

namespace kvpage::engine {
namespace {

constexpr std::size_t kDigits = 5;
constexpr std::string_view kSuffixForm = "-NNNNN-of-MMMMM.gguf";

std::optional<std::uint32_t> five_digits(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + kDigits, value);
  if (error != std::errc{} || end != text.data() + kDigits) return std::nullopt;
  return value;
}

}  // namespace

std::optional<SplitName> SplitName::parse(const std::filesystem::path& path) {
  const std::string name = path.string();
  if (name.size() < kSuffixForm.size()) return std::nullopt;
  const std::string_view suffix = std::string_view{name}.substr(name.size() - kSuffixForm.size());
  if (suffix[0] != '-' || suffix.substr(6, 4) != "-of-" || suffix.substr(15) != ".gguf") return std::nullopt;
  const auto part = five_digits(suffix.substr(1));
  const auto num_parts = five_digits(suffix.substr(10));
  if (!part || !num_parts || *part < 1 || *part > *num_parts) return std::nullopt;
  return SplitName{name.substr(0, name.size() - kSuffixForm.size()), *part - 1, *num_parts};
}

std::filesystem::path SplitName::part_path(std::uint32_t i) const {
  char suffix[40];
  std::snprintf(suffix, sizeof suffix, "-%05u-of-%05u.gguf", i + 1, num_parts);
  return prefix + suffix;
}

}  // namespace kvpage::engine
