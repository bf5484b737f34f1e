/// \file The oracles of glu and soft_cap, in double.
#pragma once

#include <kvpage/kernels/activation/args.hpp>

#include <cmath>

KVPAGE_BEGIN_NAMESPACE
namespace reference {

/// act(x) in double.
inline double gate_activation(GateActivation activation, double x) {
  if (activation == GateActivation::kSilu) return x / (1.0 + std::exp(-x));
  constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
  // x / 2 * (1 + tanh(u)) without the cancellation at negative x.
  return x / (1.0 + std::exp(-2.0 * kSqrtTwoOverPi * (x + 0.044715 * x * x * x)));
}

/// Obvious loops in double; the contract is GluArgs.
template <Element X = float, Element Out = X>
Status glu(const BasicGluArgs<X, Out>& args) {
  if (const Status status = validate(args); !status.ok()) return status;
  for (std::int64_t r = 0; r < args.num_rows; ++r) {
    for (std::int64_t i = 0; i < args.dim; ++i) {
      const double gate = gate_activation(args.activation, element_value<X>(args.gate[r * args.gate_stride + i]));
      const double value = gate * element_value<X>(args.up[r * args.up_stride + i]);
      args.out[r * args.out_stride + i] = ElementCodec<Out>::encode(static_cast<float>(value));
    }
  }
  return {};
}

/// Obvious loops in double; the contract is SoftCapArgs.
template <Element X = float>
Status soft_cap(const BasicSoftCapArgs<X>& args) {
  if (const Status status = validate(args); !status.ok()) return status;
  for (std::int64_t r = 0; r < args.num_rows; ++r) {
    for (std::int64_t i = 0; i < args.dim; ++i) {
      Stored<X>& x = args.x[r * args.x_stride + i];
      const double value = static_cast<double>(args.cap) * std::tanh(element_value<X>(x) / static_cast<double>(args.cap));
      x = ElementCodec<X>::encode(static_cast<float>(value));
    }
  }
  return {};
}

}  // namespace reference
KVPAGE_END_NAMESPACE
