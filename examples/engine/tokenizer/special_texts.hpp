/// \file Special tokens by their text: what ends an answer, and which types a file has wrong.
#pragma once

#include "engine/tokenizer/tokenizer.hpp"
#include "engine/tokenizer/tokenizer_data.hpp"

#include <span>
#include <vector>

namespace kvpage::engine {

/// Gives the type kControl to tokens whose text says so and whose type does not: texts that end an answer, `<|name|>` and
/// its like, markers of turns, and those of `named` that stand in brackets (the ids that the file names as BOS, EOS, end of
/// turn and end of message). Only a control token is hidden in answers and cannot be written by users.
/// What the merges make of plain text stays as it is, bytes and unknown tokens too. In an SPM vocabulary without a byte
/// token `<0xNN>` is one.
/// Requires: the ids of `named` are below the number of pieces.
void correct_special_types(TokenizerData& data, std::span<const TokenId> named);

/// The tokens that end an answer because of their text, by rising id. Requires: the types were corrected.
std::vector<TokenId> find_end_texts(const Tokenizer& tokenizer);

}  // namespace kvpage::engine
