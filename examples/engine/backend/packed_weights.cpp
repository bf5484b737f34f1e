#include "engine/backend/packed_weights.hpp"

#include "engine/backend/shipped_kernels.hpp"

#include <algorithm>

namespace kvpage::engine {
namespace {

/// Bytes of the file that are fetched and packed at a time: what a load holds twice. A worker's share is still in its caches when it is
/// packed; many workers have few panels each.
std::int64_t slice_bytes(const Cpu& cpu) noexcept {
  constexpr std::int64_t kPerWorker = std::int64_t{512} << 10, kMost = std::int64_t{4} << 20;
  return std::min(kMost, kPerWorker * cpu.num_threads());
}

/// Panels of `view`, whose rows are whole steps, in `memory`; a slice of rows at a time.
Expected<PackedWeight, Status> pack(Cpu& cpu, const PanelKernels& kernels, const WeightView& view, std::span<std::byte> memory,
                                    const FetchCallback& fetch) {
  const PackedWeight whole{memory.data(), view.rows, view.cols, &kernels};
  const std::int64_t slice_rows = std::max<std::int64_t>(1, slice_bytes(cpu) / (kPanelRows * view.row_bytes)) * kPanelRows;
  for (std::int64_t first = 0; first < view.rows; first += slice_rows) {
    WeightView slice = view.slice_rows(first, std::min(slice_rows, view.rows - first));
    const auto data = fetch({slice.data, static_cast<std::size_t>(slice.rows * slice.row_bytes)});
    if (data.empty()) return Unexpected{Status(StatusCode::kDeviceError, "the data of a weight cannot be read", first, view.rows)};
    slice.data = data.data();
    const auto offset = static_cast<std::size_t>(whole.panel(first / kPanelRows) - whole.data);
    if (const auto packed = pack_weight(cpu, kernels, slice, memory.subspan(offset)); !packed) return Unexpected{packed.error()};
  }
  return whole;
}

}  // namespace

std::int64_t packed_weight_bytes(const WeightView& view) {
  const auto kernels = shipped_kernels(*view.format);
  return kernels ? packed_bytes(**kernels, view.rows, view.cols).value_or(0) : 0;
}

Expected<CpuWeight, Status> PackedWeights::load(Cpu& cpu, const WeightView& view, const FetchCallback& fetch) {
  CpuWeight weight{.plain = view, .rows = view.rows, .cols = view.cols};
  const std::int64_t bytes = packed_weight_bytes(view);
  if (bytes == 0) return weight;
  const auto memory = memory_.span().subspan(static_cast<std::size_t>(used_bytes_));
  if (std::ssize(memory) < bytes) {
    return Unexpected{Status(StatusCode::kCapacity, "weights need more memory than was reserved", bytes, std::ssize(memory))};
  }
  const auto kernels = shipped_kernels(*view.format);
  if (filled_) {
    weight.packed = {memory.data(), view.rows, view.cols, *kernels};
  } else {
    const auto packed = pack(cpu, **kernels, view, memory.first(static_cast<std::size_t>(bytes)), fetch);
    if (!packed) return Unexpected{packed.error()};
    weight.packed = *packed;
  }
  used_bytes_ += bytes;
  weight.plain = {};
  return weight;
}

}  // namespace kvpage::engine
