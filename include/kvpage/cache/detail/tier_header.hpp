/// \file TierHeader: what stands before a page in a persistent tier store, and the checksums of headers and pages.
#pragma once

#include <kvpage/cache/detail/tier_table.hpp>

#include <cstring>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// SipHash-1-3 with 128 bits: any damage goes unseen with probability 2^-128; with a secret it is also hard to forge.
struct TierCheck {
  SipSecret secret;

  [[nodiscard]] PrefixKey operator()(std::span<const std::byte> bytes) const noexcept {
    SipHash128<1, 3> sip{secret};
    std::size_t i = 0;
    std::uint64_t word = 0;
    for (; i + 8 <= bytes.size(); i += 8) {
      std::memcpy(&word, bytes.data() + i, 8);
      sip.word(word);
    }
    word = 0;
    std::memcpy(&word, bytes.data() + i, bytes.size() - i);
    return sip.finish(word, bytes.size() - i);
  }
};

/// Little endian: magic, u64 layout id, u64 page bytes, u32 group, u32 tokens of a block, key, page checksum, the tokens, and the
/// checksum of all that. Filled up to a multiple of 64 bytes with zeros.
class TierHeader {
 public:
  static constexpr std::int64_t kMaxBlockSize = 1024;

  TierHeader(std::uint64_t layout_id, std::int64_t page_bytes, std::int64_t block_size) noexcept
      : layout_id_(layout_id), page_bytes_(page_bytes), block_size_(block_size) {}

  [[nodiscard]] static constexpr std::int64_t size_bytes(std::int64_t block_size) noexcept {
    return round_up(kFixedBytes + 4 * block_size + kCheckBytes, 64);
  }
  [[nodiscard]] std::int64_t size_bytes() const noexcept { return size_bytes(block_size_); }
  [[nodiscard]] std::span<std::byte> bytes() noexcept { return std::span{bytes_}.first(static_cast<std::size_t>(size_bytes())); }

  void write(const TierSlot& slot, std::span<const TokenId> tokens, const TierCheck& check) noexcept {
    write_fixed(slot);
    for (std::size_t i = 0; i < tokens.size(); ++i) put(kFixedBytes + 4 * i, tokens[i], 4);
    put_check(checked_bytes(), check(std::span{bytes_}.first(checked_bytes())));
  }

  /// True when the bytes are a header of this layout and shape; then `slot` and `tokens` say what the page is.
  [[nodiscard]] bool read(TierSlot& slot, std::span<TokenId> tokens, const TierCheck& check) noexcept {
    if (get_check(checked_bytes()) != check(std::span{bytes_}.first(checked_bytes()))) return false;
    if (get(0, 8) != kMagic || get(8, 8) != layout_id_ || get(16, 8) != static_cast<std::uint64_t>(page_bytes_)) return false;
    if (get(28, 4) != static_cast<std::uint64_t>(block_size_)) return false;
    slot.group = static_cast<std::uint32_t>(get(24, 4));
    std::memcpy(slot.key.bytes.data(), bytes_.data() + 32, slot.key.bytes.size());
    slot.page_check = get_check(64);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>(get(kFixedBytes + 4 * i, 4));
    return slot.key.named();
  }

 private:
  static constexpr std::uint64_t kMagic = 0x3172'6569'7470'766B;  // "kvptier1"
  static constexpr std::int64_t kFixedBytes = 80;
  static constexpr std::int64_t kCheckBytes = 16;

  void write_fixed(const TierSlot& slot) noexcept {
    put(0, kMagic, 8);
    put(8, layout_id_, 8);
    put(16, static_cast<std::uint64_t>(page_bytes_), 8);
    put(24, slot.group, 4);
    put(28, static_cast<std::uint64_t>(block_size_), 4);
    std::memcpy(bytes_.data() + 32, slot.key.bytes.data(), slot.key.bytes.size());
    put_check(64, slot.page_check);
  }
  [[nodiscard]] std::size_t checked_bytes() const noexcept { return static_cast<std::size_t>(kFixedBytes + 4 * block_size_); }
  void put(std::size_t at, std::uint64_t x, std::size_t width) noexcept {
    for (std::size_t i = 0; i < width; ++i) bytes_[at + i] = static_cast<std::byte>(x >> (8 * i));
  }
  [[nodiscard]] std::uint64_t get(std::size_t at, std::size_t width) const noexcept {
    std::uint64_t x = 0;
    for (std::size_t i = 0; i < width; ++i) x |= std::to_integer<std::uint64_t>(bytes_[at + i]) << (8 * i);
    return x;
  }
  void put_check(std::size_t at, const PrefixKey& check) noexcept { put(at, check.lo, 8), put(at + 8, check.hi, 8); }
  [[nodiscard]] PrefixKey get_check(std::size_t at) const noexcept { return {get(at, 8), get(at + 8, 8)}; }

  std::uint64_t layout_id_;
  std::int64_t page_bytes_;
  std::int64_t block_size_;
  std::array<std::byte, static_cast<std::size_t>(round_up(kFixedBytes + 4 * kMaxBlockSize + kCheckBytes, 64))> bytes_{};
};

}  // namespace detail
KVPAGE_END_NAMESPACE
