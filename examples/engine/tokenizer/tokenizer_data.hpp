/// \file TokenizerData: everything a model file says about its tokenizer, as plain values.
#pragma once

#include <kvpage/base/types.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvpage::engine {

/// How symbols are merged into tokens.
enum class TokenizerKind : std::uint8_t {
  kBpe,  ///< bytes, merged in the order of a list of merges, word by word
  kSpm,  ///< characters, merged by the scores of the pieces; spaces are U+2581; unknown characters become byte tokens
};

/// How a text is cut into the words that merges never cross (BPE only).
enum class PreTokenizer : std::uint8_t {
  kGpt2,          ///< contractions, letters, digits, other characters (each with one leading space), whitespace
  kSmol,          ///< every digit alone, then kGpt2 between the digits
  kDigitTriples,  ///< case-blind contractions, digits in groups of at most three, one leading non-letter joins a word
  kSingleDigits,  ///< kDigitTriples with every digit alone
};

/// What a vocabulary entry is for; numbered as in GGUF files.
enum class TokenType : std::uint8_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

/// "No such token": never a valid id.
inline constexpr TokenId kNoToken = std::numeric_limits<TokenId>::max();

/// What a tokenizer is made from. The views need to live only until Tokenizer::create returns.
struct TokenizerData {
  TokenizerKind kind = TokenizerKind::kBpe;
  PreTokenizer pre_tokenizer = PreTokenizer::kGpt2;
  bool ignore_merges = false;            ///< BPE: a word that is a token is that token, whatever the merges say
  bool composes = false;                 ///< BPE: texts are brought into NFC between special tokens, before they are cut
  std::vector<std::string_view> pieces;  ///< [vocab_size], as written in the file
  std::vector<TokenType> types;          ///< [vocab_size], or empty: all kNormal
  std::vector<float> scores;             ///< [vocab_size], SPM only
  std::vector<std::string_view> merges;  ///< BPE only: "left right", the most urgent first
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  std::optional<TokenId> unk;
  bool add_bos = false;           ///< encode(add_special) puts `bos` in front
  bool add_eos = false;           ///< encode(add_special) puts `eos` at the end
  bool add_space_prefix = false;  ///< SPM: a space is put in front of the text and behind each control token
};

/// Why TokenizerData cannot work.
struct TokenizerError {
  std::string item;    ///< which list and which entry
  std::string wanted;  ///< what a good tokenizer has there
  std::string found;   ///< what this one has there
  std::string hint;    ///< what to do about it

  std::string to_string() const { return item + ": wanted " + wanted + ", found " + found + "; " + hint; }
};

}  // namespace kvpage::engine
