/// \file Random weight matrices in every format, packed, with activations: what the packed GEMM tests share.
#pragma once

#include "support/isa.hpp"
#include "support/random_floats.hpp"

#include <kvpage/base/aligned_bytes.hpp>
#include <kvpage/kernels/gemm/cpu_packed.hpp>
#include <kvpage/kernels/quantize_rows/cpu.hpp>

#include <stdexcept>

namespace kvpage_test {

/// The packed kernels of every shipped format that has them (defined in shipped_panels.cpp).
std::vector<const kvpage::WeightFormatInfo*> packed_formats();
const kvpage::PanelKernels& panel_kernels(const kvpage::WeightFormatInfo& format);
/// The reason why a format has none, or "".
const char* no_panel_reason(const kvpage::WeightFormatInfo& format);

/// [rows, cols] random blocks of a format, every scale finite and of moderate size.
class RandomWeights {
 public:
  RandomWeights(const kvpage::WeightFormatInfo& format, std::int64_t rows, std::int64_t cols, std::uint32_t seed)
      : format_(&format), rows_(rows), cols_(cols),
        bytes_(static_cast<std::size_t>(rows * cols / format.block_elements * format.block_bytes)) {
    std::mt19937 rng(seed);
    std::vector<float> values(static_cast<std::size_t>(format.block_elements));
    const auto block_bytes = static_cast<std::size_t>(format.block_bytes);
    for (std::size_t at = 0; at < bytes_.size(); at += block_bytes) {
      do {
        for (std::size_t i = 0; i < block_bytes; ++i) bytes_[at + i] = static_cast<std::byte>(rng());
        format.decode_blocks(bytes_.data() + at, 1, values.data());
      } while (!moderate(values));
    }
  }
  kvpage::WeightView view() const { return kvpage::weight_view(*format_, bytes_.data(), rows_, cols_); }
  std::vector<std::byte>& bytes() { return bytes_; }

 private:
  static bool moderate(const std::vector<float>& values) {
    for (const float v : values) {
      if (!(v > -1e3f && v < 1e3f)) return false;
    }
    return true;
  }
  const kvpage::WeightFormatInfo* format_;
  std::int64_t rows_, cols_;
  std::vector<std::byte> bytes_;
};

/// A packed matrix with its memory.
struct Packed {
  kvpage::AlignedBytes memory;
  kvpage::PackedWeight weight;
  explicit Packed(const kvpage::WeightView& view, int num_threads = 2)
      : memory(*kvpage::packed_bytes(panel_kernels(*view.format), view.rows, view.cols)) {
    kvpage::Cpu cpu({.num_threads = num_threads});
    weight = *kvpage::pack_weight(cpu, panel_kernels(*view.format), view, memory.span());
  }
};

/// Activations in both forms.
struct Activations {
  std::int64_t rows, cols;
  std::vector<float> x;
  std::vector<kvpage::QuantizedGroup> groups;
  kvpage::QuantizedRows quantized;
  Activations(std::int64_t r, std::int64_t c, std::vector<float> values)
      : rows(r), cols(c), x(std::move(values)), groups(static_cast<std::size_t>(r * kvpage::QuantizedRows::groups_for(c))) {
    quantized = {groups.data(), rows, cols, kvpage::QuantizedRows::groups_for(cols)};
    kvpage::Cpu cpu({.num_threads = 1});
    if (!kvpage::quantize_rows(cpu, {x.data(), cols, rows, quantized}).ok()) std::abort();
  }
  Activations(std::int64_t r, std::int64_t c, std::uint32_t seed) : Activations(r, c, random_floats(r * c, seed, -2.0f, 2.0f)) {}
  /// Rows [first, first + count).
  kvpage::GemmInput input(std::int64_t first, std::int64_t count) const {
    kvpage::QuantizedRows part = quantized;
    part.groups += first * part.row_groups;
    part.num_rows -= first;
    return {part, x.data() + first * cols, cols, count};
  }
};

/// Output rows [count, N] of rows [first, first + count).
inline std::vector<float> multiply(kvpage::Cpu& cpu, const kvpage::PackedWeight& weight, const Activations& a, std::int64_t first,
                                   std::int64_t count, const kvpage::GemmTuning& tuning = {}) {
  std::vector<float> out(static_cast<std::size_t>(count * weight.rows), -1.0f);
  const kvpage::PackedGemmArgs args{
      .weight = weight, .input = a.input(first, count), .out = out.data(), .out_stride = weight.rows};
  const auto status = kvpage::gemm(cpu, args, tuning);
  if (!status.ok()) throw std::runtime_error(status.message());
  return out;
}

}  // namespace kvpage_test
