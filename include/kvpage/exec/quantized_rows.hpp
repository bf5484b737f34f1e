/// \file QuantizedRows: activation rows as signed bytes in groups of 32, each with its scale.
#pragma once

#include <kvpage/base/error.hpp>
#include <kvpage/base/types.hpp>

#include <span>

KVPAGE_BEGIN_NAMESPACE

/// How many steps a group's scale makes of its largest value.
enum class GroupScale : std::uint8_t {
  kLargest,   ///< 127: quick
  kSearched,  ///< the s of 127 .. 120 that rounds the group's values with the least squared error: the more exact one
};

/// What GroupScale::kSearched tries, all by integers, so that every path chooses the same s: v = x / amax rounded to 2^-15, then the
/// errors of v * s from the nearest integer, squared, and summed with a weight that makes sums of different s comparable.
/// Of equal sums the largest s has preference, so that values which 127 steps meet exactly stay exact.
inline constexpr int kMostSteps = 127;
inline constexpr int kLeastSteps = 120;

/// The weight of kMostSteps - i steps, (kLeastSteps / steps)^2 in 2^-16.
inline constexpr std::uint16_t kStepWeights[] = {58510, 59442, 60397, 61375, 62377, 63404, 64456, 65535};

/// 32 consecutive activations: x[i] is about d * q[i]. Everything a dot product needs of them lies together.
///
/// d = amax / s, s by GroupScale, with q rounded to nearest even; a group with NaN or infinity has d = NaN and q = 0, so that its row's
/// results turn NaN instead of plausible; amax < 2^-100 counts as zero. Range: for |x| <= 2^122 d_sum is finite. Beyond, where the
/// sum of a group leaves the floats, d_sum is infinite: weights with a minimum, even of 0, then give infinity or NaN in that row.
struct QuantizedGroup {
  static constexpr std::int64_t kSize = 32;

  std::int8_t q[kSize];   ///< in [-127, 127]
  float d;                ///< scale
  float d_sum;            ///< d * sum
  std::int32_t sum;       ///< of q[0..31]
  std::int32_t sum_low;   ///< of q[0..15], for weights with a scale per 16
};
static_assert(sizeof(QuantizedGroup) == 48);

/// Caller-owned rows of groups; the last group of a row is padded with zeros. Trivially copyable view.
struct QuantizedRows {
  QuantizedGroup* groups = nullptr;  // [num_rows, row_groups]
  std::int64_t num_rows = 0;
  std::int64_t cols = 0;
  std::int64_t row_groups = 0;  ///< groups from one row to the next

  const QuantizedGroup* row(std::int64_t r) const noexcept { return groups + r * row_groups; }
  QuantizedGroup* row(std::int64_t r) noexcept { return groups + r * row_groups; }

  /// Groups per row, with one more when the stride would be a multiple of 1 KB: such rows would share cache sets.
  static constexpr std::int64_t groups_for(std::int64_t cols) noexcept {
    const std::int64_t groups = ceil_div(cols, QuantizedGroup::kSize);
    return groups * static_cast<std::int64_t>(sizeof(QuantizedGroup)) % 1024 == 0 ? groups + 1 : groups;
  }

  /// Memory that `place` wants. Requires: num_rows, cols >= 0.
  static constexpr std::int64_t bytes_for(std::int64_t num_rows, std::int64_t cols) noexcept {
    return num_rows * groups_for(cols) * static_cast<std::int64_t>(sizeof(QuantizedGroup));
  }

  /// Rows in `memory` [>= bytes_for], aligned to 16 bytes. Errors: ConfigError when it is too small or not aligned.
  static QuantizedRows place(std::span<std::byte> memory, std::int64_t num_rows, std::int64_t cols) {
    const std::int64_t needed = bytes_for(num_rows, cols);
    if (static_cast<std::int64_t>(memory.size()) < needed) {
      throw_config_error("QuantizedRows: the memory is too small", static_cast<std::int64_t>(memory.size()), needed, "bytes");
    }
    if (reinterpret_cast<std::uintptr_t>(memory.data()) % 16 != 0) {
      throw_config_error("QuantizedRows: the memory must be 16-byte aligned",
                         static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(memory.data()) % 16), 0, "bytes");
    }
    return {reinterpret_cast<QuantizedGroup*>(memory.data()), num_rows, cols, groups_for(cols)};
  }
};

KVPAGE_END_NAMESPACE
