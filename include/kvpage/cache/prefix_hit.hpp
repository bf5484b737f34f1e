/// \file PrefixHit: what `match` found, PrefixQuery: what it is asked, and how long published blocks should be kept.
#pragma once

#include <kvpage/cache/block_ids.hpp>
#include <kvpage/cache/detail/block_records.hpp>
#include <kvpage/cache/eviction_policy.hpp>
#include <kvpage/cache/portable_key.hpp>

#include <algorithm>
#include <limits>
#include <span>

KVPAGE_BEGIN_NAMESPACE

/// Content of a block that its token ids do not show (a picture behind placeholder tokens). The caller gives equal content equal ids.
struct BlockExtra {
  std::int64_t block_index = 0;
  std::uint32_t id = 0;  ///< 0 = none
  std::span<const PortableExtra> content{};  ///< the same in portable terms; empty with an id: the block has no portable key
};

/// The prompt to look for.
struct PrefixQuery {
  NamespaceId name_space{};
  std::span<const TokenId> tokens;  ///< [num_tokens]
  std::int64_t max_tokens = std::numeric_limits<std::int64_t>::max();  ///< e.g. the first position whose logprobs are wanted
  std::span<const BlockExtra> extras{};  ///< ascending block_index
};

/// Retention wish for published blocks.
struct Retention {
  std::uint8_t priority = kDefaultRetentionPriority;  ///< 0 (first out) to 100
  std::int64_t expires_at_ns = 0;                     ///< 0 = no end
  std::int64_t recompute_ns_per_block = 0;            ///< for cost-aware eviction; 0 = unknown
};

/// The longest cached start of a prompt: full blocks, then a part of one more. A plain value: it holds nothing, and
/// `share` refuses it (kStaleHit) once a block of it was reused.
struct PrefixHit {
  NamespaceId name_space{};
  std::int64_t num_tokens = 0;      ///< cached tokens, up to the whole prompt
  std::int64_t partial_tokens = 0;  ///< of num_tokens, those in a partly matching last block
  std::uint64_t epoch = 0;
  std::uint32_t node = detail::kNoLink;  ///< last fully matched node; its root path is the hit
  std::uint32_t generation = 0;
  std::uint32_t num_blocks = 0;  ///< fully matched blocks
  std::uint32_t partial_node = detail::kNoLink;
  std::uint32_t partial_generation = 0;

  /// Tokens that need not be computed for a prompt of `prompt_tokens`: logits need one computed token, so at most prompt_tokens - 1.
  /// When num_tokens reaches the prompt, the last token's row is query only: its K/V are there and are not written again.
  /// With sliding-window groups ask for at most prompt_tokens - 1 (PrefixQuery::max_tokens): the last token's own query looks back one
  /// token further than a hit of the whole prompt keeps.
  [[nodiscard]] constexpr std::int64_t num_computed(std::int64_t prompt_tokens) const noexcept {
    return std::min(num_tokens, prompt_tokens - 1);
  }
  [[nodiscard]] constexpr bool query_only_last(std::int64_t prompt_tokens) const noexcept { return num_tokens >= prompt_tokens; }

  /// The full blocks alone: what a load from a tier continues.
  [[nodiscard]] constexpr PrefixHit without_partial() const noexcept {
    PrefixHit full = *this;
    full.num_tokens -= partial_tokens;
    full.partial_tokens = 0;
    full.partial_node = detail::kNoLink;
    full.partial_generation = 0;
    return full;
  }
};

/// What `share` attached.
struct SharedPrefix {
  std::int64_t num_tokens = 0;     ///< cached tokens that the sequence has now; fewer than the hit if no block was free for a copy
  std::int64_t copied_tokens = 0;  ///< of these, tokens that copies() moves into a private block
};

/// What publish is given: the committed tokens of a sequence from its start.
struct PublishArgs {
  std::span<const TokenId> tokens;       // [num_committed]: all committed tokens of the sequence
  std::span<const BlockExtra> extras{};  // ascending block_index
  Retention retention{};
  bool partial_tail = false;
};

KVPAGE_END_NAMESPACE
