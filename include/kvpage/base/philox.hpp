/// \file Counter-based random numbers: every draw is a function of what it is for, never of call order.
#pragma once

#include <kvpage/base/config.hpp>

#include <cstdint>

KVPAGE_BEGIN_NAMESPACE

/// Input counter or output of one Philox call.
struct PhiloxBlock {
  std::uint32_t word[4];
  friend constexpr bool operator==(const PhiloxBlock&, const PhiloxBlock&) = default;
};

/// Philox4x32-10: a bijection of the 128-bit counter for every 64-bit key.
/// Source: Salmon, Moraes, Dror, Shaw: "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
KVPAGE_HD constexpr PhiloxBlock philox4x32(PhiloxBlock counter, std::uint64_t key) noexcept {
  auto key0 = static_cast<std::uint32_t>(key);
  auto key1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * counter.word[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * counter.word[2];
    counter = {{static_cast<std::uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0, static_cast<std::uint32_t>(product1),
                static_cast<std::uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1, static_cast<std::uint32_t>(product0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

/// What a random number is for. Streams never share numbers.
enum class DrawStream : std::uint8_t { kSample = 0, kDraft = 1, kAccept = 2, kResample = 3, kBonus = 4 };

/// The coordinates of one random number of a request.
struct DrawKey {
  std::uint64_t seed = 0;                   ///< of the request
  DrawStream stream = DrawStream::kSample;
  std::uint32_t position = 0;               ///< of the token to be drawn, counted from the start of the prompt
  std::uint32_t child = 0;                  ///< which of the n answers of one request
  std::uint32_t tree_node = 0;              ///< node of a draft tree; 0 outside trees
  std::uint32_t draw = 0;                   ///< running number of several draws for one token; below 2^24
};

/// 64 uniform random bits, a pure function of `key`.
KVPAGE_HD constexpr std::uint64_t draw_bits(const DrawKey& key) noexcept {
  const std::uint32_t purpose = static_cast<std::uint32_t>(key.stream) << 24 | (key.draw & 0x00FF'FFFFu);
  const PhiloxBlock block = philox4x32({{key.position, purpose, key.child, key.tree_node}}, key.seed);
  return static_cast<std::uint64_t>(block.word[1]) << 32 | block.word[0];
}

KVPAGE_END_NAMESPACE
