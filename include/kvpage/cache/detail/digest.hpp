/// \file Digest: folds numbers into 64 bits, to compare whole states in tests.
#pragma once

#include <kvpage/base/config.hpp>

#include <cstdint>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// Mixes all bits of x (finaliser of SplitMix64). Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
constexpr std::uint64_t mix_bits(std::uint64_t x) noexcept {
  x += 0x9E37'79B9'7F4A'7C15u;
  x = (x ^ (x >> 30)) * 0xBF58'476D'1CE4'E5B9u;
  x = (x ^ (x >> 27)) * 0x94D0'49BB'1331'11EBu;
  return x ^ (x >> 31);
}

/// An order-sensitive fold. Not for hostile input.
struct Digest {
  std::uint64_t value = 0;
  constexpr void fold(std::uint64_t x) noexcept { value = mix_bits(value ^ mix_bits(x)) + 1; }
};

}  // namespace detail
KVPAGE_END_NAMESPACE
