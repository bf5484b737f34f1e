#include "engine/loader/hash128.hpp"

#define XXH_INLINE_ALL  // nothing to link
#include <xxhash.h>

namespace kvpage::engine {

Hash128 hash128(std::span<const std::byte> bytes) noexcept {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

}  // namespace kvpage::engine
