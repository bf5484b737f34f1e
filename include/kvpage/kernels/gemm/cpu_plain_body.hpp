/// \file Tiles of panels of plain floats. No include guard: cpu_panel_kernels.hpp compiles it once per instruction set.
#ifndef KVPAGE_ISA_BODY
#include <kvpage/kernels/gemm/cpu_panel_kernels.hpp>
#else

namespace detail {
template <PlainElement kElement>
KVPAGE_LANES FloatLanes load_plain(const std::byte* element) {
  if constexpr (kElement == PlainElement::kFloat) return load(reinterpret_cast<const float*>(element));
  if constexpr (kElement == PlainElement::kHalf) return load_half(reinterpret_cast<const std::uint16_t*>(element));
  return load_bfloat(reinterpret_cast<const std::uint16_t*>(element));
}

/// kRows activation rows against kHalves halves of a panel [k][32]: sum = fma(w, x, sum), k ascending.
template <PlainElement kElement, int kRows, int kHalves>
inline void float_tile(const std::byte* column, std::int64_t num_cols, const TileInput& input, int first_half, float* out, bool fresh) {
  constexpr int kBytes = kElement == PlainElement::kFloat ? 4 : 2;
  const float* x[kRows];
  FloatLanes sums[kRows][kHalves];
  KVPAGE_UNROLL
  for (int m = 0; m < kRows; ++m) {
    x[m] = input.x + m * input.x_stride;
    KVPAGE_UNROLL
    for (int h = 0; h < kHalves; ++h) sums[m][h] = fresh ? zero() : load(out + kPanelRows * m + 16 * (first_half + h));
  }
  for (std::int64_t k = 0; k < num_cols; ++k, column += kPanelRows * kBytes) {
    FloatLanes w[kHalves];
    KVPAGE_UNROLL
    for (int h = 0; h < kHalves; ++h) w[h] = load_plain<kElement>(column + 16 * kBytes * (first_half + h));
    KVPAGE_UNROLL
    for (int m = 0; m < kRows; ++m) {
      const FloatLanes value = broadcast(x[m][k]);
      KVPAGE_UNROLL
      for (int h = 0; h < kHalves; ++h) sums[m][h] = fma(w[h], value, sums[m][h]);
    }
  }
  KVPAGE_UNROLL
  for (int m = 0; m < kRows; ++m) {
    KVPAGE_UNROLL
    for (int h = 0; h < kHalves; ++h) store(out + kPanelRows * m + 16 * (first_half + h), sums[m][h]);
  }
}
}  // namespace detail

/// The contract is PanelTile, for plain floats.
template <PlainElement kElement, int kRows = kMaxTileRows>
inline void plain_tile(const std::byte* steps, std::int64_t num_steps, const kvpage::detail::TileInput& input, int num_rows, float* sums,
                       bool fresh) {
  if constexpr (kRows > 1) {
    if (num_rows < kRows) return plain_tile<kElement, kRows - 1>(steps, num_steps, input, num_rows, sums, fresh);
  }
  for (int half = 0; half < 2; half += kTileHalves) {
    detail::float_tile<kElement, kRows, kTileHalves>(steps, num_steps, input, half, sums, fresh);
  }
}
#endif
