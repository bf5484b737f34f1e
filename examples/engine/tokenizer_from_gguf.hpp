/// \file What a model file says about text: its tokenizer, its chat template and the tokens that end an answer.
#pragma once

#include "engine/loader/gguf.hpp"
#include "engine/tokenizer/tokenizer.hpp"

#include <optional>
#include <string>
#include <vector>

namespace kvpage::engine {

/// The tokenizer of the file. Errors: an unknown tokenizer or pre-tokenizer (the known ones are listed), lists whose
/// lengths disagree, a broken vocabulary.
Expected<Tokenizer, LoadError> read_tokenizer(const Gguf& file);

/// Source of the chat template, if the file has one. Errors: the key is not a string.
Expected<std::optional<std::string>, LoadError> read_chat_template(const Gguf& file);

/// Tokens that end an answer, sorted: those that the file names (eos, eot, eom; pad, repository and separator of filling
/// in the middle), and those whose text is a known end (tokenizer/special_texts.hpp), whatever their type.
Expected<std::vector<TokenId>, LoadError> read_end_tokens(const Gguf& file, const Tokenizer& tokenizer);

}  // namespace kvpage::engine
