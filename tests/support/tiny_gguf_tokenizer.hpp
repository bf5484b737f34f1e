/// \file A byte-level tokenizer of 268 tokens for generated models.
#pragma once

#include "support/gguf_writer.hpp"

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace kvpage_test {

/// Ids of the tiny tokenizer: byte b has id b, then the merged pairs, then these.
struct TinyToken {
  static constexpr std::uint32_t kFirstMerged = 256;
  static constexpr std::uint32_t kEndOfText = 265;  ///< BOS
  static constexpr std::uint32_t kTurnStart = 266;
  static constexpr std::uint32_t kTurnEnd = 267;    ///< EOS
  static constexpr std::uint32_t kCount = 268;
};

/// The printable character that stands for a byte in byte-level vocabularies, as UTF-8.
/// Source: byte-level BPE of GPT-2: printable Latin-1 stands for itself, the other bytes for U+0100 and up, in order.
inline std::string byte_level_character(unsigned byte) {
  const auto printable = [](unsigned b) { return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae; };
  unsigned code_point = byte;
  if (!printable(byte)) {
    code_point = 0x100;
    for (unsigned b = 0; b < byte; ++b) code_point += printable(b) ? 0u : 1u;
  }
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  return {static_cast<char>(0xc0 | code_point >> 6), static_cast<char>(0x80 | (code_point & 0x3f))};
}

/// Writes the tokenizer's metadata, filled up to `vocab_size` with unused control tokens.
inline void add_tiny_tokenizer(GgufWriter& writer, std::size_t vocab_size) {
  if (vocab_size < TinyToken::kCount) throw std::invalid_argument{"the tiny tokenizer needs a vocab_size of at least 268"};
  const std::string blank = byte_level_character(' ');
  const std::vector<std::array<std::string, 2>> pairs{{blank, "t"}, {"h", "e"},  {"i", "n"},   {"a", "n"},         {"e", "r"},
                                                      {"o", "n"},   {"r", "e"}, {blank, "a"}, {blank + "t", "he"}};
  std::vector<std::string> tokens;
  std::vector<std::string> merges;
  for (unsigned byte = 0; byte < 256; ++byte) tokens.push_back(byte_level_character(byte));
  for (const auto& pair : pairs) {
    tokens.push_back(pair[0] + pair[1]);
    merges.push_back(pair[0] + " " + pair[1]);
  }
  std::vector<std::int32_t> types(tokens.size(), 1);  // 1 = normal, 3 = control
  tokens.insert(tokens.end(), {"<|endoftext|>", "<|im_start|>", "<|im_end|>"});
  while (tokens.size() < vocab_size) tokens.push_back("<|unused_" + std::to_string(tokens.size()) + "|>");
  types.resize(tokens.size(), 3);

  writer.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2");
  writer.texts("tokenizer.ggml.tokens", tokens).numbers("tokenizer.ggml.token_type", types).texts("tokenizer.ggml.merges", merges);
  writer.number("tokenizer.ggml.bos_token_id", TinyToken::kEndOfText).number("tokenizer.ggml.eos_token_id", TinyToken::kTurnEnd);
  writer.number("tokenizer.ggml.add_bos_token", false);
  writer.text("tokenizer.chat_template",
              "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}"
              "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}");
}

}  // namespace kvpage_test
