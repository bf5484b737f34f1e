/// \file ByteReader: reads little-endian numbers and byte ranges from a span and never passes its end.
#pragma once

#include <kvpage/base/checked.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace kvpage::engine {

/// The input ends before the bytes that were asked for.
struct ShortInput {
  std::int64_t offset_bytes;   ///< where the read began
  std::uint64_t wanted_bytes;  ///< how many were asked for
  std::uint64_t left_bytes;    ///< how many there are
};

/// An integer type that a file can store.
template <class T>
concept StoredInteger = std::integral<T> && !std::same_as<T, bool>;

/// The little-endian integer in the first sizeof(T) bytes. Requires: bytes.size() >= sizeof(T).
template <StoredInteger T>
constexpr T load_little_endian(std::span<const std::byte> bytes) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  return static_cast<T>(value);
}

/// A position in a byte span. A failed read moves nothing.
class ByteReader {
 public:
  constexpr explicit ByteReader(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}

  constexpr std::int64_t offset_bytes() const noexcept { return static_cast<std::int64_t>(offset_); }
  constexpr std::uint64_t left_bytes() const noexcept { return bytes_.size() - offset_; }

  /// The next little-endian number; it stays Untrusted until a range check releases it.
  template <StoredInteger T>
  constexpr Expected<Untrusted<T>, ShortInput> read() noexcept {
    const auto bytes = take(sizeof(T));
    if (!bytes) return Unexpected{bytes.error()};
    return Untrusted<T>{load_little_endian<T>(*bytes)};
  }

  /// The next `count` bytes, not copied.
  constexpr Expected<std::span<const std::byte>, ShortInput> take(std::uint64_t count) noexcept {
    if (count > left_bytes()) return Unexpected{ShortInput{offset_bytes(), count, left_bytes()}};
    const auto taken = bytes_.subspan(offset_, static_cast<std::size_t>(count));
    offset_ += static_cast<std::size_t>(count);
    return taken;
  }

  /// The same for a count that the file itself states.
  constexpr Expected<std::span<const std::byte>, ShortInput> take(Untrusted<std::uint64_t> count) noexcept {
    const auto checked = count.in_range(0, left_bytes());
    if (!checked) return Unexpected{ShortInput{offset_bytes(), count.for_message(), left_bytes()}};
    return take(*checked);
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t offset_ = 0;
};

}  // namespace kvpage::engine
