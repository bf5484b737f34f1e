/// \file gemm_heads: a packed launch that hands every finished head of its outputs to an epilogue.
#pragma once

#include <kvpage/kernels/gemm/cpu_packed.hpp>

#include <atomic>

KVPAGE_BEGIN_NAMESPACE

/// Outputs [first_row, first_row + num_rows) x [first_col, first_col + num_cols) of one matrix, complete where its GemmOutput wants them.
struct GemmHead {
  std::size_t matrix;  ///< which one of the launch
  std::int64_t first_row;
  std::int64_t num_rows;
  std::int64_t first_col;
  std::int64_t num_cols;
};

/// How the outputs of a launch are cut into heads.
struct GemmHeads {
  std::int64_t head_dim = 0;          ///< neighbouring outputs that belong together; divides every N
  std::span<std::int32_t> pending{};  // [num_rows, sum of N / head_dim] or longer, all zero before and after a launch

  /// Of all matrices together.
  std::int64_t num_heads(std::span<const PackedWeight> weights) const noexcept {
    std::int64_t sum = 0;
    for (const PackedWeight& weight : weights) sum += weight.rows / head_dim;
    return sum;
  }
};

/// The error of a launch that cannot run, or ok.
inline Status validate(const GroupedGemmArgs& args, const GemmHeads& heads) noexcept {
  const auto invalid = [](const char* message, std::int64_t value, std::int64_t limit) {
    return Status(StatusCode::kInvalidArgument, message, value, limit);
  };
  if (const Status status = validate(args); !status.ok() || args.input.num_rows == 0) return status;
  if (heads.head_dim <= 0) return invalid("gemm_heads: head_dim must be positive", heads.head_dim, 1);
  for (const PackedWeight& weight : args.weights) {
    if (weight.rows % heads.head_dim != 0) return invalid("gemm_heads: N is no multiple of head_dim", weight.rows, heads.head_dim);
  }
  const std::int64_t needed = args.input.num_rows * heads.num_heads(args.weights);
  if (std::ssize(heads.pending) >= needed) return {};
  return {StatusCode::kCapacity, "gemm_heads: pending needs a number per row and head", needed, std::ssize(heads.pending)};
}

/// Does what gemm does and calls `fn(const GemmHead&)` once per head and block of rows, as soon as its outputs are stored, in the worker
/// that stored the last of them: workers share the panels of a head, so that few heads keep all of them busy. fn may change these outputs.
/// Errors: as gemm, N that is no multiple of head_dim, kCapacity when `pending` is too short; then nothing is written.
/// Cost: no allocation; one atomic addition per panel and head.
template <class Fn>
Status gemm_heads(Cpu& cpu, const GroupedGemmArgs& args, const GemmHeads& heads, Fn&& fn, const GemmTuning& tuning = {}) {
  if (const Status status = validate(args, heads); !status.ok() || args.input.num_rows == 0) return status;
  const detail::StoreEpilogue store(cpu, args.outputs);
  const std::int64_t head_dim = heads.head_dim;
  const std::int64_t num_heads = heads.num_heads(args.weights);
  const auto epilogue = [&](const GemmBlock& block) {
    store(block);
    // All panels are cut at the same rows, so that a row where a block begins and a head name a counter.
    const std::int64_t first_counter = block.first_row * num_heads + heads.num_heads(args.weights.first(block.matrix));
    const std::int64_t end_col = block.first_col + block.num_cols;
    for (std::int64_t head = block.first_col / head_dim; head * head_dim < end_col; ++head) {
      const std::int64_t begin = std::max(block.first_col, head * head_dim);
      const auto cols = static_cast<std::int32_t>(std::min(end_col, (head + 1) * head_dim) - begin);
      std::atomic_ref<std::int32_t> done(heads.pending[static_cast<std::size_t>(first_counter + head)]);
      if (done.fetch_add(cols, std::memory_order_acq_rel) + cols != head_dim) continue;
      done.store(0, std::memory_order_relaxed);
      fn(GemmHead{block.matrix, block.first_row, block.num_rows, head * head_dim, head_dim});
    }
  };
  return gemm_blocks(cpu, args.weights, args.input, epilogue, tuning);
}

KVPAGE_END_NAMESPACE
