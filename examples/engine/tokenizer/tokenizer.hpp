/// \file Tokenizer: text to token ids and back, for BPE and SPM vocabularies.
#pragma once

#include "engine/tokenizer/merge_table.hpp"
#include "engine/tokenizer/nfc.hpp"
#include "engine/tokenizer/pair_merger.hpp"
#include "engine/tokenizer/special_matcher.hpp"
#include "engine/tokenizer/tokenizer_data.hpp"
#include "engine/tokenizer/vocab.hpp"

#include <kvpage/base/expected.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvpage::engine {

/// What encode may add to and find in a text.
struct EncodeOptions {
  bool add_special = false;    ///< put BOS in front and EOS at the end, where the file asks for them
  bool parse_special = false;  ///< the text of a control token is that token; user-defined tokens are always found
  /// Without parse_special: the only parts in which control tokens are found, what the template of a chat wrote. A token
  /// must lie inside one span. Sorted, disjoint.
  std::span<const TrustedSpan> trusted = {};
};

/// What decode shows.
struct DecodeOptions {
  bool show_special = false;       ///< show the text of control, unknown and unused tokens
  bool strip_space_prefix = true;  ///< the ids begin a text: leave out the space that encode put in front (add_space_prefix)
};

/// Memory that encode reuses, and what encode did; one per thread.
struct EncodeScratch {
  std::vector<Symbol> symbols;
  MergeScratch merge;
  NfcScratch nfc;
  std::string text;
  std::int64_t dropped_bytes = 0;  ///< bytes for which the vocabulary has no token at all, since the scratch was made
  /// Pair lookups and moves since the scratch was made: how much work the texts were, independent of the machine.
  std::int64_t steps() const noexcept { return merge.steps; }
};

/// Takes away the spaces that encode put in front of a text and behind control tokens, token by token.
class SpacePrefixStripper {
 public:
  SpacePrefixStripper(const Vocab& vocab, bool add_space_prefix, bool at_text_start) noexcept
      : vocab_(&vocab), active_(add_space_prefix), pending_(at_text_start) {}

  /// `bytes`, the text of `id`, without that space.
  std::string_view strip(TokenId id, std::string_view bytes) noexcept {
    const TokenType type = vocab_->type(id);
    const bool is_text = type == TokenType::kNormal || type == TokenType::kUserDefined || type == TokenType::kByte;
    const bool strips = active_ && pending_ && is_text && bytes.starts_with(' ');
    pending_ = !is_text;
    return strips ? bytes.substr(1) : bytes;
  }

 private:
  const Vocab* vocab_;
  bool active_;
  bool pending_;
};

/// An immutable tokenizer.
/// Threads: any number may share one; each brings its own scratch.
/// Cost: encode is O(n log n) for any text of n bytes, without recursion.
/// Bytes that are no UTF-8 are encoded one by one, never replaced: decode(encode(text)) = text for every byte string, up to
/// what the vocabulary makes of texts: it may lack bytes, take U+2581 for a space (SPM), or have its texts in NFC (composes).
class Tokenizer {
 public:
  static Expected<Tokenizer, TokenizerError> create(const TokenizerData& data);

  /// The ids of `text`. Errors: ConfigError for a text of 4 GiB or more.
  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const;
  /// The same, appended to `ids`.
  void encode(std::string_view text, const EncodeOptions& options, EncodeScratch& scratch, std::vector<TokenId>& ids) const;

  /// The ids of a rendered chat: control tokens are found in the `trusted` spans, so the BOS that a user writes stays text,
  /// and BOS stands in front exactly once if the template wrote it or the file asks for it.
  std::vector<TokenId> encode_chat(std::string_view text, std::span<const TrustedSpan> trusted) const;

  /// True if two BOS stand in front, which no model was trained on: the text had one and the file asked for another.
  bool begins_with_two_bos(std::span<const TokenId> ids) const noexcept;

  /// The bytes of `ids`, joined; not always UTF-8. Errors: ConfigError for an id that is not in the vocabulary.
  std::string decode(std::span<const TokenId> ids, const DecodeOptions& options = {}) const;

  /// The bytes of one token, empty if it is not to be shown. Errors: ConfigError for an id that is not in the vocabulary.
  std::string_view token_bytes(TokenId id, bool show_special = false) const;

  const Vocab& vocab() const noexcept { return vocab_; }
  std::optional<TokenId> bos() const noexcept { return bos_; }
  std::optional<TokenId> eos() const noexcept { return eos_; }
  bool add_bos() const noexcept { return add_bos_; }
  /// Texts are brought into NFC: decode gives the composed text back.
  bool composes() const noexcept { return composes_; }
  bool add_space_prefix() const noexcept { return add_space_prefix_; }

  /// What its tables take in the heap.
  std::int64_t memory_bytes() const noexcept {
    return static_cast<std::int64_t>(vocab_.memory_bytes() + specials_.memory_bytes() + merges_.memory_bytes() +
                                     priorities_.capacity() * sizeof(std::uint32_t) + vocab_.size() * sizeof(WholeWord));
  }

 private:
  explicit Tokenizer(Vocab vocab) : vocab_(std::move(vocab)) {}

  void encode_text(std::string_view text, std::span<const TrustedSpan> trusted, EncodeScratch& scratch, std::vector<TokenId>& ids) const;
  void encode_bpe(std::string_view text, EncodeScratch& scratch, std::vector<TokenId>& ids) const;
  void encode_bpe_word(std::string_view word, EncodeScratch& scratch, std::vector<TokenId>& ids) const;
  void encode_spm(std::string_view text, bool prefix_space, EncodeScratch& scratch, std::vector<TokenId>& ids) const;
  void encode_spm_word(std::string_view word, EncodeScratch& scratch, std::vector<TokenId>& ids) const;
  void append_unknown(std::string_view bytes, EncodeScratch& scratch, std::vector<TokenId>& ids) const;

  template <class MergeWord>
  void append_word(std::string_view word, MergeWord merge_word, EncodeScratch& scratch, std::vector<TokenId>& ids) const;

  /// Whether the merges turn the bytes of a token into that token; found out when it is first needed.
  enum class WholeWord : std::uint8_t { kNotYetKnown, kYes, kNo };

  Vocab vocab_;
  SpecialMatcher specials_;
  MergeTable merges_;                                      ///< BPE
  std::vector<std::uint32_t> priorities_;                  ///< SPM: [vocab_size], the smallest merges first
  std::array<bool, 256> joins_space_{};                    ///< SPM: bytes behind which a piece has a space
  std::unique_ptr<std::atomic<WholeWord>[]> whole_words_;  ///< [vocab_size]
  std::optional<TokenId> bos_;
  std::optional<TokenId> eos_;
  std::optional<TokenId> unk_;
  TokenizerKind kind_ = TokenizerKind::kBpe;
  PreTokenizer pre_tokenizer_ = PreTokenizer::kGpt2;
  bool ignore_merges_ = false;
  bool composes_ = false;
  bool add_bos_ = false;
  bool add_eos_ = false;
  bool add_space_prefix_ = false;
};

}  // namespace kvpage::engine
