/// \file Rows of glu and soft_cap in the 16-lane vocabulary. No include guard: cpu.hpp compiles it once per instruction set.
#ifndef KVPAGE_ISA_BODY
#include <kvpage/kernels/activation/cpu.hpp>
#else

namespace detail {
template <GateActivation kActivation, Element X, Element Out>
inline void glu_row(const Stored<X>* gate, const Stored<X>* up, Stored<Out>* out, std::int64_t dim) {
  for (std::int64_t i = 0; i < dim; i += 16) {
    const int count = dim - i < 16 ? static_cast<int>(dim - i) : 16;
    const FloatLanes g = load_elements<ElementCodec<X>>(gate + i, count);
    const FloatLanes opened = kActivation == GateActivation::kSilu ? silu(g) : gelu(g);
    store_elements<ElementCodec<Out>>(out + i, mul(opened, load_elements<ElementCodec<X>>(up + i, count)), count);
  }
}
}  // namespace detail

/// Rows [begin, end) of a validated launch.
template <Element X, Element Out>
void glu_rows(const BasicGluArgs<X, Out>& args, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    const Stored<X>* gate = args.gate + r * args.gate_stride;
    const Stored<X>* up = args.up + r * args.up_stride;
    Stored<Out>* out = args.out + r * args.out_stride;
    if (args.activation == GateActivation::kSilu) {
      detail::glu_row<GateActivation::kSilu, X, Out>(gate, up, out, args.dim);
    } else {
      detail::glu_row<GateActivation::kGeluTanh, X, Out>(gate, up, out, args.dim);
    }
  }
}

/// Columns [begin, end) of every row of a validated launch.
template <Element X>
void soft_cap_columns(const BasicSoftCapArgs<X>& args, std::int64_t begin, std::int64_t end) {
  const FloatLanes cap = broadcast(args.cap);
  for (std::int64_t r = 0; r < args.num_rows; ++r) {
    Stored<X>* x = args.x + r * args.x_stride;
    for (std::int64_t i = begin; i < end; i += 16) {
      const int count = end - i < 16 ? static_cast<int>(end - i) : 16;
      const FloatLanes value = load_elements<ElementCodec<X>>(x + i, count);
      store_elements<ElementCodec<X>>(x + i, mul(cap, tanh(div(value, cap))), count);
    }
  }
}
#endif
