/// \file Arena: cuts typed arrays out of the caller's bytes; the same cutting, run without memory, says how many bytes it takes.
#pragma once

#include <kvpage/base/checked.hpp>
#include <kvpage/base/error.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// Cuts arrays from front to back. Without memory (measure mode) it returns empty spans and only counts.
class Arena {
 public:
  static constexpr std::size_t kAlignment = 64;

  Arena() = default;
  /// Starts at the first aligned byte: up to kAlignment bytes more than what is cut can be needed.
  explicit Arena(std::span<std::byte> memory) noexcept : measuring_(false) {
    void* base = memory.data();
    std::size_t size = memory.size();
    if (std::align(kAlignment, 0, base, size) == nullptr) return;  // nothing fits
    base_ = static_cast<std::byte*>(base);
    size_ = size;
  }

  /// `count` value-initialised T, or an empty span when measuring. Errors: ConfigError when the memory is too small.
  template <class T>
  std::span<T> cut(std::int64_t count) {
    const std::span<T> cells = cut_raw<T>(count);
    if (!measuring_) std::uninitialized_value_construct(cells.begin(), cells.end());
    return cells;
  }

  /// As `cut`, but leaves the bytes as they are, so that large tables cost no page until they are used.
  template <class T>
  std::span<T> cut_raw(std::int64_t count) {
    static_assert(std::is_trivially_destructible_v<T> && std::is_trivially_copyable_v<T> && alignof(T) <= kAlignment,
                  "arena arrays are never destroyed");
    const auto bytes = checked_mul(count, static_cast<std::int64_t>(sizeof(T)));
    if (!bytes || *bytes < 0) throw_config_error("an array of the allocator is larger than memory can be", count, 0, "elements");
    used_ = (used_ + kAlignment - 1) / kAlignment * kAlignment;
    const std::size_t begin = used_;
    used_ += static_cast<std::size_t>(*bytes);
    if (measuring_) return {};
    if (used_ > size_) {
      throw_config_error("the memory given is smaller than required_bytes", static_cast<std::int64_t>(size_),
                         static_cast<std::int64_t>(used_), "bytes");
    }
    return {reinterpret_cast<T*>(base_ + begin), static_cast<std::size_t>(count)};
  }

  [[nodiscard]] std::size_t used_bytes() const noexcept { return used_; }

 private:
  bool measuring_ = true;
  std::byte* base_ = nullptr;
  std::size_t size_ = 0;
  std::size_t used_ = 0;
};

}  // namespace detail
KVPAGE_END_NAMESPACE
