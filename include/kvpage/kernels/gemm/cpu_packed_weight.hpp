/// \file PackedWeight: a weight matrix in 32-row panels, the form that the packed GEMM reads.
#pragma once

#include <kvpage/base/checked.hpp>
#include <kvpage/exec/cpu.hpp>
#include <kvpage/kernels/gemm/cpu_panel_kernels.hpp>
#include <kvpage/quant/weight_view.hpp>

#include <span>

KVPAGE_BEGIN_NAMESPACE

/// Trivially copyable view of a packed matrix [rows, cols]; made by pack_weight, memory owned by the caller.
struct PackedWeight {
  const std::byte* data = nullptr;  // [rows / 32 rounded up, cols / step_cols, step_bytes]
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  const PanelKernels* kernels = nullptr;

  std::int64_t num_panels() const noexcept { return ceil_div(rows, kPanelRows); }
  std::int64_t num_steps() const noexcept { return cols / kernels->step_cols; }
  std::int64_t bytes() const noexcept { return num_panels() * num_steps() * kernels->step_bytes; }
  const std::byte* panel(std::int64_t p) const noexcept { return data + p * num_steps() * kernels->step_bytes; }

  /// Writes the weights of row `r` to `out` [cols], as the format's own decode gives them (tied embeddings).
  void decode_row(std::int64_t r, float* out) const noexcept {
    KVPAGE_ASSERT(r >= 0 && r < rows, "a row index lies inside the matrix");
    const std::byte* step = panel(r / kPanelRows);
    for (std::int64_t s = 0; s < num_steps(); ++s, step += kernels->step_bytes, out += kernels->step_cols) {
      kernels->read(step, static_cast<int>(r % kPanelRows), out);
    }
  }
};

/// Bytes of a packed matrix, or OutOfRange if cols are not whole blocks or the size does not fit.
[[nodiscard]] inline Expected<std::int64_t, OutOfRange> packed_bytes(const PanelKernels& kernels, std::int64_t rows,
                                                                     std::int64_t cols) noexcept {
  if (rows < 0 || cols < 0 || cols % kernels.step_cols != 0) return Unexpected{OutOfRange{}};
  const auto panel_bytes = checked_mul(cols / kernels.step_cols, kernels.step_bytes);
  if (!panel_bytes) return Unexpected{OutOfRange{}};
  return checked_mul(ceil_div(rows, kPanelRows), *panel_bytes);
}

/// Alignment of the memory that pack_weight fills.
inline constexpr std::int64_t kPackedAlignment = 64;

namespace detail {
/// Packs the rows of one panel. Returns the first row with a scale that is NaN or infinite, or -1.
inline std::int64_t pack_panel(const PanelKernels& kernels, const WeightView& view, std::int64_t panel, std::byte* dst) noexcept {
  const std::int64_t num_steps = view.cols / kernels.step_cols;
  std::memset(dst, 0, static_cast<std::size_t>(num_steps * kernels.step_bytes));
  const std::int64_t first = panel * kPanelRows;
  for (std::int64_t r = first; r < std::min(view.rows, first + kPanelRows); ++r) {
    const std::byte* block = view.row(r);
    for (std::int64_t s = 0; s < num_steps; ++s, block += kernels.block_bytes) {
      if (!kernels.write(block, static_cast<int>(r - first), dst + s * kernels.step_bytes)) return r;
    }
  }
  return -1;
}
}  // namespace detail

/// Packs `view` into `dst`, in parallel. No weight is rounded: decode_row gives back the same floats.
/// Requires: `kernels` belong to the view's format. Errors: kInvalidArgument for an empty or odd-shaped matrix, unaligned
/// memory, or a scale that is NaN or infinite (value = row); kCapacity when dst is too small. Threads: as Cpu.
[[nodiscard]] inline Expected<PackedWeight, Status> pack_weight(Cpu& cpu, const PanelKernels& kernels, const WeightView& view,
                                                                std::span<std::byte> dst) {
  const auto invalid = [](const char* message, std::int64_t value, std::int64_t limit) {
    return Unexpected{Status(StatusCode::kInvalidArgument, message, value, limit)};
  };
  if (view.data == nullptr || view.rows <= 0 || view.cols <= 0) return invalid("pack_weight: the weight view is empty", view.rows, 1);
  if (view.format == nullptr || view.format->name != kernels.format) {
    return invalid("pack_weight: the kernels belong to another weight format", 0, 1);
  }
  const auto needed = packed_bytes(kernels, view.rows, view.cols);
  if (!needed) return invalid("pack_weight: cols must be a multiple of the format's block", view.cols, kernels.step_cols);
  if (static_cast<std::int64_t>(dst.size()) < *needed) {
    return Unexpected{Status(StatusCode::kCapacity, "pack_weight: dst is too small", *needed, static_cast<std::int64_t>(dst.size()))};
  }
  if (reinterpret_cast<std::uintptr_t>(dst.data()) % kPackedAlignment != 0) {
    return invalid("pack_weight: dst must be aligned to 64 bytes", 0, kPackedAlignment);
  }
  const PackedWeight packed{dst.data(), view.rows, view.cols, &kernels};
  std::atomic<std::int64_t> bad_row{-1};
  cpu.parallel_for(packed.num_panels(), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t p = begin; p < end; ++p) {
      const std::int64_t bad = detail::pack_panel(kernels, view, p, dst.data() + (packed.panel(p) - packed.data));
      if (bad >= 0) bad_row.store(bad, std::memory_order_relaxed);
    }
  });
  if (bad_row.load() >= 0) return invalid("pack_weight: a row has a scale that is NaN or infinite", bad_row.load(), view.rows);
  return packed;
}

/// The same for a format known at compile time: the only thing that a user's own format needs.
template <class W>
  requires PanelWeight<W> || PlainWeight<W>
[[nodiscard]] Expected<PackedWeight, Status> pack_weight(Cpu& cpu, const WeightView& view, std::span<std::byte> dst) {
  return pack_weight(cpu, kPanelKernels<W>, view, dst);
}

KVPAGE_END_NAMESPACE
