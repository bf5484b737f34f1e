/// \file Sha256: the hash under names that must mean the same in every process and language.
#pragma once

#include <kvpage/base/config.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

KVPAGE_BEGIN_NAMESPACE

/// 32 bytes of SHA-256.
using Sha256Digest = std::array<std::byte, 32>;

/// One SHA-256 computation: bytes and little-endian numbers in, then finish, once.
/// Source: FIPS 180-4, "Secure Hash Standard", 2015.
class Sha256 {
 public:
  constexpr Sha256& bytes(std::span<const std::byte> message) noexcept {
    for (const std::byte b : message) put(b);
    return *this;
  }
  constexpr Sha256& u16(std::uint16_t x) noexcept { return little_endian(x, 2); }
  constexpr Sha256& u32(std::uint32_t x) noexcept { return little_endian(x, 4); }

  /// The digest of everything put in. The computation is over.
  [[nodiscard]] constexpr Sha256Digest finish() noexcept {
    const std::uint64_t num_bits = num_bytes_ * 8;
    put(std::byte{0x80});
    while (num_bytes_ % kBlockBytes != kBlockBytes - 8) put(std::byte{0});
    for (int shift = 56; shift >= 0; shift -= 8) put(static_cast<std::byte>(num_bits >> shift));
    Sha256Digest digest{};
    for (std::size_t i = 0; i < digest.size(); ++i) digest[i] = static_cast<std::byte>(state_[i / 4] >> (24 - 8 * (i % 4)));
    return digest;
  }

 private:
  static constexpr std::size_t kBlockBytes = 64;

  /// The first 32 bits of the fractions of the cube roots of the first 64 primes.
  static constexpr std::array<std::uint32_t, 64> kRound{
      0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
      0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
      0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
      0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
      0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
      0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

  constexpr Sha256& little_endian(std::uint32_t x, int width) noexcept {
    for (int i = 0; i < width; ++i) put(static_cast<std::byte>(x >> (8 * i)));
    return *this;
  }

  constexpr void put(std::byte b) noexcept {
    block_[num_bytes_++ % kBlockBytes] = b;
    if (num_bytes_ % kBlockBytes == 0) compress();
  }

  constexpr void compress() noexcept {
    std::array<std::uint32_t, 64> w{};
    for (std::size_t t = 0; t < 16; ++t) {
      for (std::size_t i = 0; i < 4; ++i) w[t] = w[t] << 8 | std::to_integer<std::uint32_t>(block_[4 * t + i]);
    }
    for (std::size_t t = 16; t < 64; ++t) {
      const std::uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ w[t - 15] >> 3;
      const std::uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ w[t - 2] >> 10;
      w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state_;
    for (std::size_t t = 0; t < 64; ++t) {
      const std::uint32_t choice = (e & f) ^ (~e & g);
      const std::uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
      const std::uint32_t t1 = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + choice + kRound[t] + w[t];
      const std::uint32_t t2 = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + majority;
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const std::array<std::uint32_t, 8> sum{a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < sum.size(); ++i) state_[i] += sum[i];
  }

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, kBlockBytes> block_{};
  std::uint64_t num_bytes_ = 0;
};

KVPAGE_END_NAMESPACE
