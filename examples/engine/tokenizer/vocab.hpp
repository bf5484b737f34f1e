/// \file Vocab: the pieces of a vocabulary as bytes, and the way back from bytes to ids.
#pragma once

#include "engine/tokenizer/byte_hash.hpp"
#include "engine/tokenizer/tokenizer_data.hpp"

#include <kvpage/base/expected.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvpage::engine {

/// What the pieces of an SPM vocabulary have in place of a space: U+2581.
inline constexpr std::string_view kEscapedSpace = "\xE2\x96\x81";

/// The bytes that each token stands for. BPE pieces are decoded from their byte alphabet; in SPM pieces U+2581 is a space,
/// so the text to be encoded needs no escaping. A piece that is not written in the alphabet stands for itself.
class Vocab {
 public:
  /// Takes and checks `pieces` and `types`.
  static Expected<Vocab, TokenizerError> create(const TokenizerData& data);

  std::size_t size() const noexcept { return types_.size(); }

  /// What `id` stands for. Requires: id < size().
  std::string_view bytes(TokenId id) const noexcept {
    return std::string_view(arena_).substr(offsets_[id], offsets_[id + 1] - offsets_[id]);
  }
  TokenType type(TokenId id) const noexcept { return types_[id]; }

  /// True if text may become `id` by merging: everything else comes from the text of special tokens or from single bytes.
  bool mergeable(TokenId id) const noexcept { return mergeable_[id]; }

  /// The mergeable token of exactly these bytes, or kNoToken; of several, the one with the smallest id.
  TokenId find(std::string_view bytes) const noexcept {
    if (bytes.size() > longest_mergeable_) return kNoToken;
    const std::uint64_t hash = hash_bytes(bytes);
    for (std::size_t slot = hash & (slots_.size() - 1); slots_[slot].id != kNoToken; slot = (slot + 1) & (slots_.size() - 1)) {
      if (slots_[slot].tag == tag(hash) && this->bytes(slots_[slot].id) == bytes) return slots_[slot].id;
    }
    return kNoToken;
  }

  /// The token that stands for one byte of a text: a BPE piece of one byte, or an SPM byte token. kNoToken if there is none.
  TokenId byte_token(unsigned char byte) const noexcept { return byte_tokens_[byte]; }

  /// What the tables take in the heap.
  std::size_t memory_bytes() const noexcept {
    return arena_.capacity() + offsets_.capacity() * sizeof(std::uint32_t) + types_.capacity() * sizeof(TokenType) +
           mergeable_.capacity() / 8 + slots_.capacity() * sizeof(Slot);
  }

 private:
  struct Slot {
    std::uint32_t tag = 0;  ///< high bits of the hash, compared before the bytes
    TokenId id = kNoToken;
  };

  static constexpr std::uint32_t tag(std::uint64_t hash) noexcept { return static_cast<std::uint32_t>(hash >> 32); }
  /// Appends what `piece` stands for; false if a byte token is not written as <0xNN>.
  bool append_piece(TokenizerKind kind, std::string_view piece, TokenType type);
  void index_pieces(TokenizerKind kind, const std::vector<std::string_view>& pieces);

  std::string arena_;
  std::vector<std::uint32_t> offsets_;  ///< [vocab_size + 1]
  std::vector<TokenType> types_;        ///< [vocab_size]
  std::vector<bool> mergeable_;         ///< [vocab_size]
  std::vector<Slot> slots_;
  std::array<TokenId, 256> byte_tokens_{};
  std::size_t longest_mergeable_ = 0;
};

}  // namespace kvpage::engine
