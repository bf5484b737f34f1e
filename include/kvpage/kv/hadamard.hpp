/// \file hadamard_rotate: sign flips and a normalised Walsh-Hadamard transform, the fixed rotation of quantised keys and values.
#pragma once

#include <kvpage/base/config.hpp>

#include <bit>
#include <cmath>
#include <cstdint>

KVPAGE_BEGIN_NAMESPACE

namespace detail {
/// +1 or -1 for dim `d`: one fixed bit of a mixed counter. It is part of every layout that stores rotated vectors, so it
/// never changes. Source: the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
KVPAGE_HD constexpr float rotation_sign(std::int64_t d) noexcept {
  std::uint64_t z = (static_cast<std::uint64_t>(d) + 1) * 0x9E37'79B9'7F4A'7C15u;
  z = (z ^ (z >> 30)) * 0xBF58'476D'1CE4'E5B9u;
  z = (z ^ (z >> 27)) * 0x94D0'49BB'1331'11EBu;
  return (((z ^ (z >> 31)) >> 17) & 1u) != 0 ? -1.0f : 1.0f;
}

/// x [n], n a power of two: the unnormalised transform, in place. Only additions: the same bits on every machine.
template <class T>
KVPAGE_HD constexpr void walsh_hadamard(T* x, std::int64_t n) noexcept {
  for (std::int64_t half = 1; half < n; half *= 2) {
    for (std::int64_t block = 0; block < n; block += 2 * half) {
      for (std::int64_t i = block; i < block + half; ++i) {
        const T a = x[i];
        const T b = x[i + half];
        x[i] = a + b;
        x[i + half] = a - b;
      }
    }
  }
}

/// Calls fn(begin, size) for the largest power-of-two blocks that tile [0, n): 96 = 64 + 32.
template <class Fn>
KVPAGE_HD constexpr void for_each_rotation_block(std::int64_t n, Fn&& fn) {
  std::int64_t begin = 0;
  while (begin < n) {
    const auto size = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n - begin)));
    fn(begin, size);
    begin += size;
  }
}
}  // namespace detail

/// The signs of the rotation as a table, for kernels.
struct RotationSigns {
  static constexpr std::int64_t kMaxDims = 512;
  float value[kMaxDims] = {};

  constexpr RotationSigns() noexcept {
    for (std::int64_t d = 0; d < kMaxDims; ++d) value[d] = detail::rotation_sign(d);
  }
};
inline constexpr RotationSigns kRotationSigns{};

/// Rotates x [head_dim] in place: y = H S x with S = fixed signs and H = Walsh-Hadamard / sqrt(block).
/// Ensures: orthogonal, so dot products of two rotated vectors are those of the vectors, up to rounding.
/// Cost: head_dim * log2(head_dim) additions. Source: QuaRot (arXiv 2404.00456) uses the same rotation.
template <class T>
KVPAGE_HD inline void hadamard_rotate(T* x, std::int64_t head_dim) noexcept {
  // The norm comes last: an inexact product in front of the additions could be fused into them by a compiler.
  detail::for_each_rotation_block(head_dim, [x](std::int64_t begin, std::int64_t size) {
    const T norm = T{1} / std::sqrt(static_cast<T>(size));
    for (std::int64_t d = begin; d < begin + size; ++d) x[d] *= static_cast<T>(detail::rotation_sign(d));
    detail::walsh_hadamard(x + begin, size);
    for (std::int64_t d = begin; d < begin + size; ++d) x[d] *= norm;
  });
}

/// Undoes hadamard_rotate: x = S H y.
template <class T>
KVPAGE_HD inline void hadamard_unrotate(T* x, std::int64_t head_dim) noexcept {
  detail::for_each_rotation_block(head_dim, [x](std::int64_t begin, std::int64_t size) {
    const T norm = T{1} / std::sqrt(static_cast<T>(size));
    detail::walsh_hadamard(x + begin, size);
    for (std::int64_t d = begin; d < begin + size; ++d) x[d] *= norm * static_cast<T>(detail::rotation_sign(d));
  });
}

KVPAGE_END_NAMESPACE
