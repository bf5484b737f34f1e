/// \file PackedWeights: the memory of all matrices in panels, and how a matrix gets there.
#pragma once

#include "engine/backend/backend.hpp"
#include "engine/backend/mapped_memory.hpp"

#include <kvpage/exec/cpu.hpp>
#include <kvpage/kernels/gemm/cpu_packed_weight.hpp>

namespace kvpage::engine {

/// A matrix in panels, or, for a format without panels, as the file has it.
struct CpuWeight {
  PackedWeight packed{};  ///< empty if `plain` is used
  WeightView plain{};
  std::int64_t rows = 0;
  std::int64_t cols = 0;

  void decode_row(std::int64_t row, float* out) const {
    packed.data != nullptr ? packed.decode_row(row, out) : plain.decode_row(row, out);
  }
};

/// Bytes of a matrix in panels; 0: it has none and stays in the file.
std::int64_t packed_weight_bytes(const WeightView& view);

/// Owns the panels of a model. Weights that it handed out live as long as it.
class PackedWeights {
 public:
  /// Memory for all loads to come, in one piece, as huge pages want it: a weight alone is seldom large enough for one.
  void reserve(std::int64_t num_bytes) { memory_ = MappedMemory(num_bytes), used_bytes_ = 0, filled_ = false; }

  /// All of it, in the order of the loads.
  std::span<std::byte> memory() const noexcept { return memory_.span(); }
  /// Somebody has filled the memory with what the loads to come would put there: they pack nothing.
  void adopt() noexcept { filled_ = true; }

  /// The contract is Backend::load.
  Expected<CpuWeight, Status> load(Cpu& cpu, const WeightView& view, const FetchCallback& fetch);

 private:
  MappedMemory memory_;
  std::int64_t used_bytes_ = 0;
  bool filled_ = false;
};

}  // namespace kvpage::engine
