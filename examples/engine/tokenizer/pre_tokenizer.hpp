/// \file word_end: cuts a text into the words that BPE merges never cross.
#pragma once

#include "engine/tokenizer/tokenizer_data.hpp"

#include <cstddef>
#include <string_view>

namespace kvpage::engine {

/// The end of the word that begins at `begin`. Each invalid part of the UTF-8 counts as a character that is no letter,
/// number or space.
/// Requires: begin < text.size(), and `begin` is 0 or the end of a word.
/// Ensures: begin < result <= text.size().
/// Cost: all words of a text together are linear in its length; no recursion, no memory.
/// Source: the published patterns of the tokenizers (\p{L}, \p{N}, \s over whole code points):
///   kGpt2: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
///   kSmol: \p{N} first, then kGpt2 on what lies between
///   kDigitTriples: (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
///   kSingleDigits: the same with \p{N}; the contractions are case-blind in ASCII only
std::size_t word_end(PreTokenizer kind, std::string_view text, std::size_t begin);

}  // namespace kvpage::engine
