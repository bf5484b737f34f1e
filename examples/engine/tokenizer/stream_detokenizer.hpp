/// \file StreamDetokenizer: token ids, one at a time, to text of whole characters.
#pragma once

#include "engine/text/utf8.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace kvpage::engine {

/// The text of a token sequence while it is being generated. At most 3 bytes, the beginning of a character, are held back.
/// Ensures: the pieces, joined, are the UTF-8 text of Tokenizer::decode, with one U+FFFD for each maximal invalid part.
/// Requires: the tokenizer outlives this object.
class StreamDetokenizer {
 public:
  explicit StreamDetokenizer(const Tokenizer& tokenizer, const DecodeOptions& options = {})
      : tokenizer_(&tokenizer),
        spaces_(tokenizer.vocab(), tokenizer.add_space_prefix(), options.strip_space_prefix),
        show_special_(options.show_special) {}

  /// The text that `id` makes certain; the view is valid until the next call.
  /// Errors: ConfigError for an id that is not in the vocabulary.
  std::string_view push(TokenId id) { return utf8_.push(spaces_.strip(id, tokenizer_->token_bytes(id, show_special_))); }

  /// The end of the answer: the beginning of a character that never ended becomes U+FFFD.
  std::string_view finish() { return utf8_.finish(); }

  std::size_t held_bytes() const noexcept { return utf8_.held_bytes(); }

 private:
  const Tokenizer* tokenizer_;
  SpacePrefixStripper spaces_;
  Utf8Stream utf8_;
  bool show_special_;
};

}  // namespace kvpage::engine
