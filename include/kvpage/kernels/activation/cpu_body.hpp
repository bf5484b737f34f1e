/// \file Rows of glu and soft_cap in the 16-lane vocabulary. No include guard: cpu.hpp compiles it once per instruction set.
#ifndef KVPAGE_ISA_BODY
#include <kvpage/kernels/activation/cpu.hpp>
#else

namespace detail {
template <GateActivation kActivation>
inline void glu_row(const float* gate, const float* up, float* out, std::int64_t dim) {
  for (std::int64_t i = 0; i < dim; i += 16) {
    const int count = dim - i < 16 ? static_cast<int>(dim - i) : 16;
    const FloatLanes g = load_first(gate + i, count);
    const FloatLanes opened = kActivation == GateActivation::kSilu ? silu(g) : gelu(g);
    store_first(out + i, mul(opened, load_first(up + i, count)), count);
  }
}
}  // namespace detail

/// Rows [begin, end) of a validated launch.
inline void glu_rows(const GluArgs& args, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    const float* gate = args.gate + r * args.gate_stride;
    const float* up = args.up + r * args.up_stride;
    float* out = args.out + r * args.out_stride;
    if (args.activation == GateActivation::kSilu) {
      detail::glu_row<GateActivation::kSilu>(gate, up, out, args.dim);
    } else {
      detail::glu_row<GateActivation::kGeluTanh>(gate, up, out, args.dim);
    }
  }
}

/// Columns [begin, end) of every row of a validated launch.
inline void soft_cap_columns(const SoftCapArgs& args, std::int64_t begin, std::int64_t end) {
  const FloatLanes cap = broadcast(args.cap);
  for (std::int64_t r = 0; r < args.num_rows; ++r) {
    float* x = args.x + r * args.x_stride;
    for (std::int64_t i = begin; i < end; i += 16) {
      const int count = end - i < 16 ? static_cast<int>(end - i) : 16;
      store_first(x + i, mul(cap, tanh(div(load_first(x + i, count), cap))), count);
    }
  }
}
#endif
