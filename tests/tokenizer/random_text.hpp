/// \file Random texts for property tests of the tokenizer.
#pragma once

#include "engine/text/utf8.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>

namespace kvpage_test {

/// Valid UTF-8 in which everything that pre-tokenizers tell apart is frequent and adjacent.
class RandomText {
 public:
  explicit RandomText(std::uint64_t seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

  std::string text(std::size_t max_parts) {
    std::string result;
    for (std::uint64_t parts = below(max_parts + 1); parts > 0; --parts) append_part(result);
    return result;
  }

  /// Any bytes, with UTF-8 among them.
  std::string bytes(std::size_t max_parts) {
    std::string result;
    for (std::uint64_t parts = below(max_parts + 1); parts > 0; --parts) {
      append_part(result);
      if (below(2) == 0) result.push_back(static_cast<char>(below(256)));
      if (below(4) == 0 && !result.empty()) result.pop_back();
    }
    return result;
  }

 private:
  void append_part(std::string& text) {
    static constexpr std::array<std::string_view, 40> kParts{
        "a",      "B",      "the",    " word",  " ",      "  ",     "   ",    "\n",     "\r",         "\r\n",
        "\t",     "'s",     "'S",     "'ll",    "'LL",    "'re",    "'ve",    "'d",     "'",          "1",
        "23",     "4567",   ".",      "!?",     "->",     "\u00a0", "\u2003", "\u3000", "\u00e9",     "\u0416",
        "\u4e2d", "\uac00", "\u0663", "\u00bd", "\u2167", "\u0301", "\u2019", "\u017f", "\U0001f642", "\u0085"};
    const std::uint64_t kind = below(16);
    if (kind == 0) return kvpage::engine::append_utf8(text, any_code_point(0x10FFFF));
    if (kind == 1) return kvpage::engine::append_utf8(text, any_code_point(0xFFFF));
    if (kind == 2) return kvpage::engine::append_utf8(text, static_cast<std::uint32_t>(below(0x80)));
    text += kParts[below(kParts.size())];
  }

  std::uint32_t any_code_point(std::uint32_t most) {
    for (;;) {
      const auto c = static_cast<std::uint32_t>(below(std::uint64_t{most} + 1));
      if (c < 0xD800 || c > 0xDFFF) return c;
    }
  }

  std::mt19937_64 random_;
};

}  // namespace kvpage_test
