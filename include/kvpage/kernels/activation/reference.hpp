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
inline Status glu(const GluArgs& args) {
  if (const Status status = validate(args); !status.ok()) return status;
  for (std::int64_t r = 0; r < args.num_rows; ++r) {
    for (std::int64_t i = 0; i < args.dim; ++i) {
      const double gate = gate_activation(args.activation, static_cast<double>(args.gate[r * args.gate_stride + i]));
      args.out[r * args.out_stride + i] = static_cast<float>(gate * static_cast<double>(args.up[r * args.up_stride + i]));
    }
  }
  return {};
}

/// Obvious loops in double; the contract is SoftCapArgs.
inline Status soft_cap(const SoftCapArgs& args) {
  if (const Status status = validate(args); !status.ok()) return status;
  for (std::int64_t r = 0; r < args.num_rows; ++r) {
    for (std::int64_t i = 0; i < args.dim; ++i) {
      float& x = args.x[r * args.x_stride + i];
      x = static_cast<float>(static_cast<double>(args.cap) * std::tanh(static_cast<double>(x) / static_cast<double>(args.cap)));
    }
  }
  return {};
}

}  // namespace reference
KVPAGE_END_NAMESPACE
