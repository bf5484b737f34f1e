/// \file Hash128: a fingerprint of bytes at the rate of memory, to find damage; no defence against forgery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kvpage::engine {

/// 128 bits; all zero stands for "none".
struct Hash128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  friend bool operator==(const Hash128&, const Hash128&) = default;
};

/// XXH3, 128 bits. Source: https://github.com/Cyan4973/xxHash
Hash128 hash128(std::span<const std::byte> bytes) noexcept;

}  // namespace kvpage::engine
