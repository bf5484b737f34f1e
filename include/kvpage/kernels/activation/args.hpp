/// \file GluArgs and SoftCapArgs: gated activations, and limiting values smoothly.
#pragma once

#include <kvpage/base/error.hpp>
#include <kvpage/base/types.hpp>
#include <kvpage/exec/gate_activation.hpp>
#include <kvpage/precision/element.hpp>

#include <cmath>

KVPAGE_BEGIN_NAMESPACE

/// out = activation(gate) * up, element by element.
/// Requires: `out` is `gate`, is `up`, or overlaps neither; elements that overlap have one type.
/// Source: Shazeer, GLU Variants Improve Transformer, 2020.
template <Element X, Element Out = X>
struct BasicGluArgs {
  const Stored<X>* gate = nullptr;  // [num_rows, dim]
  std::int64_t gate_stride = 0;     ///< elements from one row to the next
  const Stored<X>* up = nullptr;    // [num_rows, dim]
  std::int64_t up_stride = 0;
  Stored<Out>* out = nullptr;  // [num_rows, dim]
  std::int64_t out_stride = 0;
  std::int64_t num_rows = 0;
  std::int64_t dim = 0;
  GateActivation activation = GateActivation::kSilu;
};
using GluArgs = BasicGluArgs<float>;

/// x = cap * tanh(x / cap), in place.
template <Element X>
struct BasicSoftCapArgs {
  Stored<X>* x = nullptr;     // [num_rows, dim]
  std::int64_t x_stride = 0;  ///< elements from one row to the next
  std::int64_t num_rows = 0;
  std::int64_t dim = 0;
  float cap = 0.0f;  ///< > 0, finite
};
using SoftCapArgs = BasicSoftCapArgs<float>;

/// The error of a launch that cannot run, or ok.
template <Element X, Element Out>
Status validate(const BasicGluArgs<X, Out>& args) noexcept {
  const auto invalid = [](const char* message, std::int64_t value, std::int64_t limit) {
    return Status(StatusCode::kInvalidArgument, message, value, limit);
  };
  if (args.num_rows < 0) return invalid("glu: num_rows is negative", args.num_rows, 0);
  if (args.num_rows == 0) return {};
  if (args.dim <= 0) return invalid("glu: dim must be positive", args.dim, 1);
  if (args.gate == nullptr || args.up == nullptr || args.out == nullptr) return invalid("glu: gate, up or out is null", 0, 1);
  if (args.gate_stride < args.dim) return invalid("glu: gate_stride is smaller than dim", args.gate_stride, args.dim);
  if (args.up_stride < args.dim) return invalid("glu: up_stride is smaller than dim", args.up_stride, args.dim);
  if (args.out_stride < args.dim) return invalid("glu: out_stride is smaller than dim", args.out_stride, args.dim);
  return {};
}

/// The error of a launch that cannot run, or ok.
template <Element X>
Status validate(const BasicSoftCapArgs<X>& args) noexcept {
  const auto invalid = [](const char* message, std::int64_t value, std::int64_t limit) {
    return Status(StatusCode::kInvalidArgument, message, value, limit);
  };
  if (args.num_rows < 0) return invalid("soft_cap: num_rows is negative", args.num_rows, 0);
  if (args.num_rows == 0) return {};
  if (args.dim <= 0) return invalid("soft_cap: dim must be positive", args.dim, 1);
  if (args.x == nullptr) return invalid("soft_cap: x is null", 0, 1);
  if (args.x_stride < args.dim) return invalid("soft_cap: x_stride is smaller than dim", args.x_stride, args.dim);
  if (!(args.cap > 0.0f) || std::isinf(args.cap)) return invalid("soft_cap: cap must be finite and > 0", 0, 0);
  return {};
}

KVPAGE_END_NAMESPACE
