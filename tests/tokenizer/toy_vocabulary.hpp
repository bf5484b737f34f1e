/// \file Small vocabularies made for tests: every byte, a few merges, a few special tokens.
#pragma once

#include "engine/tokenizer/tokenizer.hpp"
#include "support/catch.hpp"
#include "tokenizer/random_text.hpp"

#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvpage_test {

/// TokenizerData that owns its strings.
class ToyVocabulary {
 public:
  kvpage::engine::TokenizerData data;

  kvpage::TokenId add(std::string piece, kvpage::engine::TokenType type = kvpage::engine::TokenType::kNormal, float score = 0) {
    data.pieces.push_back(strings_.emplace_back(std::move(piece)));
    data.types.push_back(type);
    data.scores.push_back(score);
    return static_cast<kvpage::TokenId>(data.pieces.size() - 1);
  }
  /// A merge of two pieces in the byte alphabet, and the piece that it makes.
  kvpage::TokenId add_merge(const std::string& left, const std::string& right) {
    data.merges.push_back(strings_.emplace_back(left + ' ' + right));
    return add(left + right);
  }
  kvpage::engine::Tokenizer make() const {
    auto tokenizer = kvpage::engine::Tokenizer::create(data);
    if (!tokenizer) FAIL(tokenizer.error().to_string());
    return std::move(*tokenizer);
  }

  /// Tokens 0 to 255 are the bytes.
  static ToyVocabulary bpe() {
    ToyVocabulary vocabulary;
    std::uint32_t next = 0x100;
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const bool plain = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
      std::string piece;
      kvpage::engine::append_utf8(piece, plain ? byte : next++);
      vocabulary.add(piece);
    }
    return vocabulary;
  }

  /// Tokens 0 to 255 are the byte tokens.
  static ToyVocabulary spm() {
    ToyVocabulary vocabulary;
    vocabulary.data.kind = kvpage::engine::TokenizerKind::kSpm;
    for (int byte = 0; byte < 256; ++byte) {
      char piece[8];
      std::snprintf(piece, sizeof piece, "<0x%02X>", static_cast<unsigned>(byte));
      vocabulary.add(piece, kvpage::engine::TokenType::kByte);
    }
    return vocabulary;
  }

 private:
  std::deque<std::string> strings_;  // never moves its elements: the views of `data` stay valid
};

}  // namespace kvpage_test
