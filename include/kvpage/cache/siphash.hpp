/// \file SipHash with 128-bit output over 64-bit words: the keyed hash of prefix keys.
#pragma once

#include <kvpage/base/entropy.hpp>
#include <kvpage/base/types.hpp>

#include <bit>
#include <span>

KVPAGE_BEGIN_NAMESPACE

/// 128 random bits, drawn once per process. Whoever knows them can build colliding prompts: never log, trace or send them.
struct SipSecret {
  std::uint64_t k0;
  std::uint64_t k1;

  /// From the system. Errors: ConfigError where it gives no random numbers.
  [[nodiscard]] static SipSecret drawn() { return {draw_entropy(), draw_entropy()}; }
  /// The same in every run: for tests, replays, and keys that somebody else keeps.
  [[nodiscard]] static constexpr SipSecret fixed(std::uint64_t k0, std::uint64_t k1) noexcept { return {k0, k1}; }

 private:
  constexpr SipSecret(std::uint64_t first, std::uint64_t second) noexcept : k0(first), k1(second) {}
};

/// 128 bits that stand for the content of a block and of everything before it.
struct PrefixKey {
  std::uint64_t lo = 0;
  std::uint64_t hi = 0;
  friend constexpr bool operator==(const PrefixKey&, const PrefixKey&) = default;
};

/// One SipHash computation: words in, then finish. `kCompression` rounds per word, `kFinal` rounds at each end.
/// Source: Aumasson, Bernstein, "SipHash: a fast short-input PRF", 2012; 128-bit output as in its reference code.
template <int kCompression, int kFinal>
class SipHash128 {
 public:
  constexpr explicit SipHash128(const SipSecret& secret) noexcept
      : v0_(secret.k0 ^ 0x736f6d6570736575u),
        v1_(secret.k1 ^ 0x646f72616e646f6du ^ 0xEEu),
        v2_(secret.k0 ^ 0x6c7967656e657261u),
        v3_(secret.k1 ^ 0x7465646279746573u) {}

  /// Eight message bytes, little endian.
  constexpr void word(std::uint64_t m) noexcept {
    v3_ ^= m;
    for (int i = 0; i < kCompression; ++i) round();
    v0_ ^= m;
    length_ += 8;
  }

  /// The last `count` < 8 message bytes, little endian in `tail`; upper bytes zero.
  constexpr PrefixKey finish(std::uint64_t tail = 0, std::uint64_t count = 0) noexcept {
    const std::uint64_t length = length_ + count;
    word(tail | (length << 56));
    PrefixKey key;
    v2_ ^= 0xEE;
    for (int i = 0; i < kFinal; ++i) round();
    key.lo = v0_ ^ v1_ ^ v2_ ^ v3_;
    v1_ ^= 0xDD;
    for (int i = 0; i < kFinal; ++i) round();
    key.hi = v0_ ^ v1_ ^ v2_ ^ v3_;
    return key;
  }

 private:
  constexpr void round() noexcept {
    v0_ += v1_, v2_ += v3_;
    v1_ = std::rotl(v1_, 13) ^ v0_, v3_ = std::rotl(v3_, 16) ^ v2_;
    v0_ = std::rotl(v0_, 32);
    v2_ += v1_, v0_ += v3_;
    v1_ = std::rotl(v1_, 17) ^ v2_, v3_ = std::rotl(v3_, 21) ^ v0_;
    v2_ = std::rotl(v2_, 32);
  }

  std::uint64_t v0_;
  std::uint64_t v1_;
  std::uint64_t v2_;
  std::uint64_t v3_;
  std::uint64_t length_ = 0;
};

/// The hash of PrefixIndex: SipHash-1-3 over (parent key, extra id, number of tokens, tokens).
struct SipHash13 {
  SipSecret secret;

  constexpr explicit SipHash13(SipSecret s) noexcept : secret(s) {}

  [[nodiscard]] constexpr PrefixKey operator()(const PrefixKey& parent, std::uint32_t extra,
                                               std::span<const TokenId> tokens) const noexcept {
    SipHash128<1, 3> sip{secret};
    sip.word(parent.lo);
    sip.word(parent.hi);
    sip.word(extra | (std::uint64_t{tokens.size()} << 32));
    std::size_t i = 0;
    for (; i + 2 <= tokens.size(); i += 2) sip.word(tokens[i] | (std::uint64_t{tokens[i + 1]} << 32));
    return i < tokens.size() ? sip.finish(tokens[i], 4) : sip.finish();
  }
};

KVPAGE_END_NAMESPACE
