/// \file to_nfc: canonical composition of UTF-8 text, for vocabularies whose texts are composed before they are cut.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvpage::engine {

/// A code point while it is sorted and composed.
struct NfcChar {
  std::uint32_t code_point = 0;
  std::uint32_t combining_class = 0;
};

/// Memory that to_nfc reuses.
struct NfcScratch {
  std::string text;
  std::vector<NfcChar> chars;
};

/// `text` in Normalization Form C: a view of `text` itself if it is composed already, else of `scratch`, until the next call.
/// Invalid UTF-8 stays as it is, and nothing composes across it.
/// The data is of Unicode 9.0, which is what the tokenizers library composes with (its versions up to 0.23 at least): later
/// characters stand for themselves. For texts of the others every version of Unicode says the same.
/// Cost: linear for composed text, ASCII at memory speed; sorting adds the logarithm of the longest run of marks.
/// Source: Unicode Standard Annex 15, and section 3.12 of the standard for Hangul.
std::string_view to_nfc(std::string_view text, NfcScratch& scratch);

}  // namespace kvpage::engine
