/// \file Operations of Python's str on TrustedText; every byte of a result keeps its trust.
#pragma once

#include "engine/chat/budget.hpp"
#include "engine/chat/trusted_text.hpp"
#include "engine/chat/unicode_text.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvpage::engine::chat {

/// Both sides, one side.
enum class Side : std::uint8_t { kBoth, kLeft, kRight };

/// Without the leading / trailing code points that occur in `*chars`, or without whitespace if `chars` is nullptr.
TrustedText trimmed(Budget& budget, const TrustedText& text, Side side, const TrustedText* chars);
/// At most `max_splits` cuts (negative = all), from the right if `from_right`; nullptr = at runs of whitespace.
/// Errors: kRuntime for an empty separator.
std::vector<TrustedText> split(Budget& budget, const TrustedText& text, const TrustedText* separator, std::int64_t max_splits,
                               bool from_right);
std::vector<TrustedText> split_lines(Budget& budget, const TrustedText& text, bool keep_ends);
TrustedText replaced(Budget& budget, const TrustedText& text, const TrustedText& old_part, const TrustedText& new_part,
                     std::int64_t max_count);

/// A changed copy of the whole text; trusted only if all of it was.
TrustedText recast(const TrustedText& from, std::string bytes);

/// The text with every character mapped; trusted only if all of it was.
TrustedText recased(Budget& budget, const TrustedText& text, CaseMap map);
/// `transform` of the whole text, under the same rule.
TrustedText recased(Budget& budget, const TrustedText& text, std::string (*transform)(std::string_view));
/// The filter `title`: words start behind blanks, hyphens and opening brackets.
std::string filter_title(std::string_view text);

/// With & < > ' " as HTML writes them; each byte keeps its trust. The result is markup.
TrustedText escaped(Budget& budget, const TrustedText& text);

/// Refuses a key or attribute with `_` in front. Errors: kUnsupported.
void require_public_key(std::string_view name);

}  // namespace kvpage::engine::chat
