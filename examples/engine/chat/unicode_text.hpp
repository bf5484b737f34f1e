/// \file Case and properties of characters, as Python's str has them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvpage::engine::chat {

/// Bits of properties_of, each named after the method of str that asks for it.
enum CharProperty : std::uint16_t {
  kIsPrintable = 1,
  kIsAlpha = 2,
  kIsDecimal = 4,
  kIsDigit = 8,
  kIsNumeric = 16,
  kIsUpper = 32,
  kIsLower = 64,
  kIsCased = 128,
  kIsCaseIgnorable = 256,
  kStartsIdentifier = 512,
  kContinuesIdentifier = 1024,
};
unsigned properties_of(char32_t value);
inline bool has_property(char32_t value, unsigned bits) { return (properties_of(value) & bits) != 0; }

enum class CaseMap : std::uint8_t { kLower, kUpper, kTitle, kFold };
/// One character mapped without looking at its neighbours; may be several.
void append_mapped(std::string& out, CaseMap map, char32_t value);

/// str.lower, str.upper, str.casefold of a whole text; a sigma at the end of a word becomes the final one in lower case.
std::string mapped(std::string_view text, CaseMap map);
/// str.title, str.capitalize, str.swapcase.
std::string title_cased(std::string_view text);
std::string capitalized(std::string_view text);
std::string case_swapped(std::string_view text);
/// str.isupper, str.islower, str.istitle.
bool is_upper_text(std::string_view text);
bool is_lower_text(std::string_view text);
bool is_title_text(std::string_view text);
/// The value of a decimal digit of any script; requires kIsDecimal.
int digit_of(char32_t value);

}  // namespace kvpage::engine::chat
