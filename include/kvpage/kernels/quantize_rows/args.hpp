/// \file QuantizeRowsArgs: activations to signed bytes with one scale per 32, once per tensor.
#pragma once

#include <kvpage/base/error.hpp>
#include <kvpage/exec/quantized_rows.hpp>
#include <kvpage/precision/element.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Quantises every row of x into `out`; the rounding is defined by QuantizedGroup.
/// Ensures: a group's bits depend on its 32 values alone.
template <Element X>
struct BasicQuantizeRowsArgs {
  const Stored<X>* x = nullptr;  // [num_rows, cols]
  std::int64_t x_stride = 0;     ///< elements from one row to the next
  std::int64_t num_rows = 0;
  QuantizedRows out{};  // [>= num_rows, cols]
  GroupScale group_scale = GroupScale::kLargest;
};
using QuantizeRowsArgs = BasicQuantizeRowsArgs<float>;

/// The error of a launch that cannot run, or ok.
template <Element X>
Status validate(const BasicQuantizeRowsArgs<X>& args) noexcept {
  const auto invalid = [](const char* message, std::int64_t value, std::int64_t limit) {
    return Status(StatusCode::kInvalidArgument, message, value, limit);
  };
  if (args.num_rows < 0) return invalid("quantize_rows: num_rows is negative", args.num_rows, 0);
  if (args.num_rows == 0) return {};
  if (args.x == nullptr || args.out.groups == nullptr) return invalid("quantize_rows: x or out is null", 0, 1);
  if (args.out.cols <= 0) return invalid("quantize_rows: cols must be positive", args.out.cols, 1);
  if (args.x_stride < args.out.cols) return invalid("quantize_rows: x_stride is smaller than cols", args.x_stride, args.out.cols);
  if (args.num_rows > args.out.num_rows) {
    return {StatusCode::kCapacity, "quantize_rows: out has too few rows", args.num_rows, args.out.num_rows};
  }
  return {};
}

KVPAGE_END_NAMESPACE
