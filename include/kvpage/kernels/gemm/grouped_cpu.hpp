/// \file gemm_groups: a packed launch that hands every finished group of outputs, such as a head, to an epilogue.
#pragma once

#include <kvpage/kernels/gemm/packed_cpu.hpp>

#include <atomic>

KVPAGE_BEGIN_NAMESPACE

/// Outputs [first_row, first_row + num_rows) x [first_col, first_col + num_cols) of one matrix, complete where its GemmOutput wants them.
struct GemmGroup {
  std::size_t matrix;  ///< which one of the launch
  std::int64_t first_row;
  std::int64_t num_rows;
  std::int64_t first_col;
  std::int64_t num_cols;
};

/// How the outputs of a launch are grouped.
struct GemmGroups {
  std::int64_t group_cols = 0;        ///< neighbouring outputs that belong together (head_dim); divides every N
  std::span<std::int32_t> pending{};  // [num_rows, sum of N / group_cols] or longer, all zero before and after a launch
};

/// The error of a launch that cannot run, or ok.
inline Status validate(const JointGemmArgs& args, const GemmGroups& groups) noexcept {
  const auto invalid = [](const char* message, std::int64_t value, std::int64_t limit) {
    return Status(StatusCode::kInvalidArgument, message, value, limit);
  };
  if (const Status status = validate(args); !status.ok() || args.input.num_rows == 0) return status;
  if (groups.group_cols <= 0) return invalid("gemm_groups: group_cols must be positive", groups.group_cols, 1);
  std::int64_t num_groups = 0;
  for (const PackedWeight& weight : args.weights) {
    if (weight.rows % groups.group_cols != 0) return invalid("gemm_groups: N is no multiple of group_cols", weight.rows, groups.group_cols);
    num_groups += weight.rows / groups.group_cols;
  }
  const std::int64_t needed = args.input.num_rows * num_groups;
  if (std::ssize(groups.pending) >= needed) return {};
  return {StatusCode::kCapacity, "gemm_groups: pending needs a number per row and group", needed, std::ssize(groups.pending)};
}

/// Does what gemm does and calls `fn(const GemmGroup&)` once per group and block of rows, as soon as its outputs are stored, in the worker
/// that stored the last of them: workers share the panels of a head, so that few heads keep all of them busy. fn may change these outputs.
/// Errors: as gemm, N that is no multiple of group_cols, kCapacity when `pending` is too short; then nothing is written.
/// Cost: no allocation; one atomic addition per panel and group.
template <class Fn>
Status gemm_groups(Cpu& cpu, const JointGemmArgs& args, const GemmGroups& groups, Fn&& fn, const GemmTuning& tuning = {}) {
  if (const Status status = validate(args, groups); !status.ok() || args.input.num_rows == 0) return status;
  const detail::StoreEpilogue store(cpu, args.outputs);
  const std::int64_t width = groups.group_cols;
  std::int64_t num_groups = 0;
  for (const PackedWeight& weight : args.weights) num_groups += weight.rows / width;
  const auto epilogue = [&](const GemmBlock& block) {
    store(block);
    // All panels are cut at the same rows, so that a row where a block begins and a group name a counter.
    std::int64_t first_counter = block.first_row * num_groups;
    for (std::size_t m = 0; m < block.matrix; ++m) first_counter += args.weights[m].rows / width;
    const std::int64_t end_col = block.first_col + block.num_cols;
    for (std::int64_t group = block.first_col / width; group * width < end_col; ++group) {
      const std::int64_t begin = std::max(block.first_col, group * width);
      const auto cols = static_cast<std::int32_t>(std::min(end_col, (group + 1) * width) - begin);
      std::atomic_ref<std::int32_t> done(groups.pending[static_cast<std::size_t>(first_counter + group)]);
      if (done.fetch_add(cols, std::memory_order_acq_rel) + cols != width) continue;
      done.store(0, std::memory_order_relaxed);
      fn(GemmGroup{block.matrix, block.first_row, block.num_rows, group * width, width});
    }
  };
  return gemm_blocks(cpu, args.weights, args.input, epilogue, tuning);
}

KVPAGE_END_NAMESPACE
