/// \file A fast hash of short byte strings, for the tables of the tokenizer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace kvpage::engine {

/// Spreads the bits of a 64-bit key over all 64 bits. Source: Steele, Lea, Flood 2014 (the finalizer of SplitMix64).
constexpr std::uint64_t mix_bits(std::uint64_t key) noexcept {
  key = (key ^ (key >> 30)) * 0xBF58'476D'1CE4'E5B9u;
  key = (key ^ (key >> 27)) * 0x94D0'49BB'1331'11EBu;
  return key ^ (key >> 31);
}

/// Hash of `bytes`; only for tables inside one process, whose keys come from the model file.
inline std::uint64_t hash_bytes(std::string_view bytes) noexcept {
  const auto load = [](const char* from, std::size_t count) {
    std::uint64_t word = 0;
    std::memcpy(&word, from, count);
    return word;
  };
  std::uint64_t hash = bytes.size() * 0x9E37'79B9'7F4A'7C15u;
  const char* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left > 8; left -= 8, at += 8) hash = (hash ^ load(at, 8)) * 0x9FB2'1C65'1E98'DF25u, hash ^= hash >> 32;
  // The tail is read in fixed sizes that may overlap: a copy of variable size would cost more than the hash.
  if (left == 8) return mix_bits(hash ^ load(at, 8));
  if (left >= 4) return mix_bits(hash ^ (load(at, 4) | load(at + left - 4, 4) << 32));
  if (left == 0) return mix_bits(hash);
  return mix_bits(hash ^ (load(at, 1) | load(at + left / 2, 1) << 8 | load(at + left - 1, 1) << 16));
}

/// Slots of an open-addressing table for `count` keys: a power of two, at most two thirds full.
constexpr std::size_t table_slots(std::size_t count) noexcept {
  std::size_t slots = 16;
  while (slots * 2 < count * 3) slots *= 2;
  return slots;
}

}  // namespace kvpage::engine
