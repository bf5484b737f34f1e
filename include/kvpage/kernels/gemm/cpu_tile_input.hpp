/// \file TileInput: the activation rows that a tile of outputs needs.
#pragma once

#include <kvpage/exec/quantized_rows.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// Rows from the first column of a K range on: quantised for panels of codes, floats for plain panels.
struct TileInput {
  const QuantizedGroup* groups;
  std::int64_t row_groups;  ///< groups from one row to the next
  const float* x;
  std::int64_t x_stride;  ///< floats from one row to the next
  const std::byte* ahead = nullptr;  ///< what the tile asks the memory for while it runs, ahead_stride further per 32 columns
  std::int64_t ahead_stride = 0;

  TileInput from(std::int64_t row, std::int64_t col) const noexcept {
    return {groups != nullptr ? groups + row * row_groups + col / QuantizedGroup::kSize : nullptr, row_groups,
            x != nullptr ? x + row * x_stride + col : nullptr, x_stride};
  }
};

/// Adds the products of `num_rows` activation rows with `num_steps` steps of a panel to `sums` [num_rows, 32]
/// (`fresh`: starts from 0 instead). Requires: 1 <= num_rows <= the path's kMaxTileRows.
using PanelTile = void (*)(const std::byte* steps, std::int64_t num_steps, const TileInput& input, int num_rows, float* sums, bool fresh);

}  // namespace detail
KVPAGE_END_NAMESPACE
