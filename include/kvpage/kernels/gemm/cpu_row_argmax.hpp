/// \file RowArgmax: the largest of a row's outputs and where it stands, as one number.
#pragma once

#include <kvpage/base/types.hpp>

#include <atomic>
#include <bit>

KVPAGE_BEGIN_NAMESPACE

/// The largest of a row's outputs, the lowest column among equal ones; or the first output that is NaN or +infinity.
/// One number, so that workers who see parts of a row need no more than an atomic maximum.
class RowArgmax {
 public:
  /// Of no output: below all others.
  constexpr RowArgmax() noexcept = default;
  constexpr RowArgmax(float value, std::int64_t col) noexcept
      : rank_(std::uint64_t{order(value)} << 32 | static_cast<std::uint32_t>(~col)) {}

  /// Whether some output is NaN or +infinity: then `col` is the first of them.
  constexpr bool is_bad() const noexcept { return rank_ >> 32 == kBad; }
  constexpr std::int64_t col() const noexcept { return static_cast<std::int64_t>(~rank_ & 0xffff'ffffu); }
  /// The largest output; -0 counts and reads as +0. Requires: not is_bad().
  constexpr float value() const noexcept {
    const auto high = static_cast<std::uint32_t>(rank_ >> 32);
    return std::bit_cast<float>((high & kSign) != 0 ? high & ~kSign : ~high);
  }

  constexpr std::uint64_t rank() const noexcept { return rank_; }

  /// Becomes the larger of the two. Threads: any number at a time.
  void raise(RowArgmax other) noexcept {
    std::atomic_ref<std::uint64_t> shared(rank_);
    std::uint64_t known = shared.load(std::memory_order_relaxed);
    while (known < other.rank_ && !shared.compare_exchange_weak(known, other.rank_, std::memory_order_relaxed)) {
    }
  }

 private:
  static constexpr std::uint32_t kSign = 0x8000'0000u;
  static constexpr std::uint32_t kBad = 0xffff'ffffu;

  /// Grows with the value; what no sampler can use stands above all numbers.
  static constexpr std::uint32_t order(float value) noexcept {
    if (!(value < std::bit_cast<float>(0x7f80'0000u))) return kBad;
    const auto bits = std::bit_cast<std::uint32_t>(value + 0.0f);
    return (bits & kSign) != 0 ? ~bits : bits | kSign;
  }

  alignas(8) std::uint64_t rank_ = 0;
};

/// The maximum of a row that stands in memory. // outputs: [num_cols]
inline RowArgmax row_argmax(const float* outputs, std::int64_t num_cols) noexcept {
  RowArgmax best;
  for (std::int64_t col = 0; col < num_cols; ++col) best.raise({outputs[col], col});
  return best;
}

KVPAGE_END_NAMESPACE
