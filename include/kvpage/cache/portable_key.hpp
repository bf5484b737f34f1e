/// \file PortableKey: the name of a block's content and of everything before it, the same in every process and language.
#pragma once

#include <kvpage/base/sha256.hpp>
#include <kvpage/cache/prefix_namespace.hpp>

KVPAGE_BEGIN_NAMESPACE

/// A chain of SHA-256 digests: one root per namespace, then one key per block, each over its parent's key. Host tiers, files and routers
/// know cached content by it; the keys of a running index are SipHash with a secret and mean nothing elsewhere.
///
/// What a writer in another language must hash; all numbers little endian, nothing between the fields:
/// - root = SHA-256("kvpage.key.v1", one zero byte; u32 block_size; u32 number of namespace fields; then, by ascending type,
///   for each field: u16 type, u32 length, its bytes).
/// - key of a block = SHA-256(32 bytes of the parent's key (the root for the first block); u32 number of tokens; each token as u32;
///   u32 number of extras; then for each extra, in the order given: u16 type, u32 offset, 32 bytes digest).
/// A full block has block_size tokens. Test vectors: tests/data/portable_keys.json, and a second writer in tests/cache_tier/.
struct PortableKey {
  Sha256Digest bytes{};

  /// False for content without a portable name: all bytes are zero.
  [[nodiscard]] constexpr bool named() const noexcept { return bytes != Sha256Digest{}; }
  friend constexpr bool operator==(const PortableKey&, const PortableKey&) = default;
};
static_assert(sizeof(PortableKey) == 32);

/// Content of a block that its token ids do not show, in portable terms.
struct PortableExtra {
  std::uint16_t type = 0;    ///< what kind of content; the caller's numbers, which must never change their meaning
  std::uint32_t offset = 0;  ///< where in that content the block starts
  Sha256Digest digest{};     ///< of the whole content
};

namespace detail {
/// The root for fields in canonical form.
constexpr PortableKey portable_root(std::int64_t block_size, std::size_t num_fields, std::span<const std::byte> canonical) noexcept {
  Sha256 hash;
  for (const char c : {'k', 'v', 'p', 'a', 'g', 'e', '.', 'k', 'e', 'y', '.', 'v', '1', '\0'}) {
    const std::byte one[1] = {static_cast<std::byte>(c)};
    hash.bytes(one);
  }
  hash.u32(static_cast<std::uint32_t>(block_size)).u32(static_cast<std::uint32_t>(num_fields)).bytes(canonical);
  return {hash.finish()};
}
}  // namespace detail

/// The key of a namespace, parent of its first blocks. Errors: kBadNamespace.
[[nodiscard]] inline CacheResult<PortableKey> portable_root_key(std::int64_t block_size, std::span<const NamespaceField> fields) {
  const auto sorted = detail::sort_fields(fields);
  if (!sorted) return Unexpected{sorted.error()};
  std::array<std::byte, detail::NamespaceTable::kMaxBytes> form;
  const std::size_t size = detail::NamespaceTable::write(std::span{*sorted}.first(fields.size()), form);
  return detail::portable_root(block_size, fields.size(), std::span{form}.first(size));
}

/// The key of a block behind `parent`. Cost: two SHA-256 blocks for 16 tokens.
[[nodiscard]] constexpr PortableKey portable_block_key(const PortableKey& parent, std::span<const TokenId> tokens,
                                                       std::span<const PortableExtra> extras = {}) noexcept {
  Sha256 hash;
  hash.bytes(parent.bytes).u32(static_cast<std::uint32_t>(tokens.size()));
  for (const TokenId token : tokens) hash.u32(token);
  hash.u32(static_cast<std::uint32_t>(extras.size()));
  for (const PortableExtra& extra : extras) hash.u16(extra.type).u32(extra.offset).bytes(extra.digest);
  return {hash.finish()};
}

KVPAGE_END_NAMESPACE
