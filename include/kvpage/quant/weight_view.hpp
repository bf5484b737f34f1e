/// \file WeightView: a read-only matrix of weights in any block format, decoded row by row.
#pragma once

#include <kvpage/base/checked.hpp>
#include <kvpage/base/error.hpp>
#include <kvpage/quant/weight_format.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Bytes of one row of `cols` weights, or OutOfRange if `cols` is negative, not whole blocks, or the size does not fit.
[[nodiscard]] constexpr Expected<std::int64_t, OutOfRange> weight_row_bytes(const WeightFormatInfo& format,
                                                                            std::int64_t cols) noexcept {
  if (cols < 0 || cols % format.block_elements != 0) return Unexpected{OutOfRange{}};
  return checked_mul(cols / format.block_elements, format.block_bytes);
}

/// Trivially copyable, non-owning view of a row-major weight matrix [rows, cols], rows `row_bytes` apart.
/// Threads: const, so any number of readers. Made by `weight_view`, which checks the shape.
struct WeightView {
  const std::byte* data = nullptr;  // [rows, row_bytes]
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t row_bytes = 0;
  const WeightFormatInfo* format = nullptr;

  /// Encoded bytes of one row.
  [[nodiscard]] const std::byte* row(std::int64_t r) const noexcept {
    KVPAGE_ASSERT(r >= 0 && r < rows, "a row index lies inside the matrix");
    return data + r * row_bytes;
  }

  /// Decodes row `r` to `out` [cols].
  void decode_row(std::int64_t r, float* out) const noexcept { decode_row(r, 0, cols, out); }

  /// Decodes `count` weights of row `r` from column `first_col` on to `out` [count].
  /// Requires: `first_col` and `count` are multiples of `format->block_elements`, inside the row.
  void decode_row(std::int64_t r, std::int64_t first_col, std::int64_t count, float* out) const noexcept {
    KVPAGE_ASSERT(first_col >= 0 && count >= 0 && first_col <= cols - count, "the columns lie inside the row");
    KVPAGE_ASSERT(first_col % format->block_elements == 0 && count % format->block_elements == 0, "columns come in whole blocks");
    const std::byte* first_block = row(r) + first_col / format->block_elements * format->block_bytes;
    format->decode_blocks(first_block, count / format->block_elements, out);
  }

  /// The matrix of rows [first, first + count).
  [[nodiscard]] WeightView slice_rows(std::int64_t first, std::int64_t count) const noexcept {
    KVPAGE_ASSERT(first >= 0 && count >= 0 && first <= rows - count, "the slice lies inside the matrix");
    return {data + first * row_bytes, count, cols, row_bytes, format};
  }
};

/// Views `data` [rows, cols] in the given format, rows without padding.
/// Errors: ConfigError if a size is negative, `cols` is not whole blocks, or the byte size does not fit 63 bits.
[[nodiscard]] inline WeightView weight_view(const WeightFormatInfo& format, const std::byte* data, std::int64_t rows,
                                            std::int64_t cols) {
  if (rows < 0) throw_config_error("weight_view: rows must not be negative", rows, 0, "rows");
  const auto row_bytes = weight_row_bytes(format, cols);
  if (!row_bytes) {
    throw_config_error("weight_view: cols must be a multiple of the format's block", cols, format.block_elements, "weights");
  }
  if (!checked_mul(rows, *row_bytes)) throw_config_error("weight_view: the matrix exceeds 2^63 bytes", rows, *row_bytes, "rows");
  return {data, rows, cols, *row_bytes, &format};
}

/// Views `data` [rows, cols] in format W. Errors: as above.
template <WeightFormat W>
[[nodiscard]] WeightView weight_view(const std::byte* data, std::int64_t rows, std::int64_t cols) {
  return weight_view(kWeightFormatInfo<W>, data, rows, cols);
}

KVPAGE_END_NAMESPACE
