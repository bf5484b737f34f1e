/// \file Hashes that collide often, and always: content is compared, so a prefix index must give the same answers with them.
#pragma once

#include <kvpage/cache/siphash.hpp>

namespace kvpage_test {

struct EightBitHash {
  kvpage::SipHash13 inner{kvpage::SipSecret::fixed(3, 4)};
  kvpage::PrefixKey operator()(const kvpage::PrefixKey& parent, std::uint32_t extra, std::span<const kvpage::TokenId> tokens) const {
    return {inner(parent, extra, tokens).lo & 0xFF, 0};
  }
};

struct ConstantHash {
  kvpage::PrefixKey operator()(const kvpage::PrefixKey&, std::uint32_t, std::span<const kvpage::TokenId>) const { return {}; }
};

/// As many key bits as `mask` has: one allocator type for a good hash, a weak one and a constant one.
struct MaskedHash {
  std::uint64_t mask = 0;
  kvpage::SipHash13 inner{kvpage::SipSecret::fixed(3, 4)};
  kvpage::PrefixKey operator()(const kvpage::PrefixKey& parent, std::uint32_t extra, std::span<const kvpage::TokenId> tokens) const {
    if (mask == 0) return {};
    const kvpage::PrefixKey key = inner(parent, extra, tokens);
    return {key.lo & mask, key.hi & mask};
  }
};

}  // namespace kvpage_test
