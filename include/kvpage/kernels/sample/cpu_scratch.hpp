/// \file The caller's scratch memory of one row while it is being sampled.
#pragma once

#include <kvpage/base/types.hpp>

#include <span>

KVPAGE_BEGIN_NAMESPACE

/// Bytes of scratch memory per row in flight (one row per thread). The memory must be aligned to 8 bytes.
[[nodiscard]] constexpr std::int64_t sample_scratch_bytes(std::int64_t vocab_size) noexcept {
  constexpr std::int64_t kBytesPerToken = 24;  // one element of each array of SampleScratch
  return round_up(vocab_size * kBytesPerToken, 64);
}

namespace detail {
/// A token that may still be drawn.
struct Candidate {
  float logit;
  TokenId id;
};

/// The one total order of candidates: the more likely first, ties by the lower id.
struct MoreLikely {
  constexpr bool operator()(const Candidate& a, const Candidate& b) const noexcept {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
  }
};

/// Typed arrays inside the scratch memory.
struct SampleScratch {
  std::uint64_t* weights;   // [vocab_size]
  Candidate* candidates;    // [vocab_size]
  float* logits;            // [vocab_size], after mask, bias and penalties
  std::uint32_t* counts;    // [vocab_size], occurrences in the output; only touched ids are initialised

  /// Requires: `memory` holds sample_scratch_bytes(vocab_size), aligned to 8.
  SampleScratch(std::byte* memory, std::int64_t vocab_size) noexcept
      : weights(reinterpret_cast<std::uint64_t*>(memory)),
        candidates(reinterpret_cast<Candidate*>(weights + vocab_size)),
        logits(reinterpret_cast<float*>(candidates + vocab_size)),
        counts(reinterpret_cast<std::uint32_t*>(logits + vocab_size)) {}
};
}  // namespace detail

/// Whether `memory` serves as scratch for this vocabulary.
[[nodiscard]] inline bool is_sample_scratch(std::span<const std::byte> memory, std::int64_t vocab_size) noexcept {
  return static_cast<std::int64_t>(memory.size()) >= sample_scratch_bytes(vocab_size) &&
         reinterpret_cast<std::uintptr_t>(memory.data()) % alignof(std::uint64_t) == 0;
}

KVPAGE_END_NAMESPACE
