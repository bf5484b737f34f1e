/// \file Hashes that collide often, and always: content is compared, so a prefix index must give the same answers with them.
#pragma once

#include <kvpage/cache/siphash.hpp>

namespace kvpage_test {

struct EightBitHash {
  kvpage::SipHash13 inner{kvpage::SipSecret{3, 4}};
  kvpage::PrefixKey operator()(const kvpage::PrefixKey& parent, std::uint32_t extra, std::span<const kvpage::TokenId> tokens) const {
    return {inner(parent, extra, tokens).lo & 0xFF, 0};
  }
};

struct ConstantHash {
  kvpage::PrefixKey operator()(const kvpage::PrefixKey&, std::uint32_t, std::span<const kvpage::TokenId>) const { return {}; }
};

}  // namespace kvpage_test
