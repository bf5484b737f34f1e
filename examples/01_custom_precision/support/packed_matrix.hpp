/// \file A random matrix in some weight format, packed, and random activation rows to multiply it with.
#pragma once

#include <kvpage/base/aligned_bytes.hpp>
#include <kvpage/base/philox.hpp>
#include <kvpage/kernels/gemm/cpu_packed.hpp>
#include <kvpage/kernels/quantize_rows/cpu.hpp>

#include <cmath>
#include <span>
#include <stdexcept>
#include <vector>

namespace own {

/// Uniform in [-1, 1), the same for a seed on every machine.
inline std::vector<float> random_values(std::int64_t count, std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto bits = kvpage::draw_bits({.seed = seed, .position = static_cast<std::uint32_t>(i)});
    values[i] = static_cast<float>(bits >> 40) * 0x1p-23f - 1.0f;
  }
  return values;
}

inline void require(const kvpage::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

/// weight [rows, cols] in format W, packed. Formats without an `encode` get blocks of arbitrary codes.
template <kvpage::PanelWeight W>
class PackedMatrix {
 public:
  PackedMatrix(kvpage::Cpu& cpu, std::int64_t rows, std::int64_t cols)
      : blocks_(static_cast<std::size_t>(rows * cols / W::kBlockElements * W::kBlockBytes), std::byte{0x25}),
        view_(kvpage::weight_view(kvpage::kWeightFormatInfo<W>, blocks_.data(), rows, cols)),
        panels_(kvpage::packed_bytes(kvpage::kPanelKernels<W>, rows, cols).value()) {
    if constexpr (requires(const float* x, std::byte* block) { W::encode(x, block); }) {
      const std::vector<float> values = random_values(rows * cols, 1);
      for (std::int64_t b = 0; b < rows * cols / W::kBlockElements; ++b) {
        W::encode(values.data() + b * W::kBlockElements, blocks_.data() + b * W::kBlockBytes);
      }
    }
    packed_ = kvpage::pack_weight<W>(cpu, view_, panels_.span()).value();
  }

  const kvpage::WeightView& view() const { return view_; }
  const kvpage::PackedWeight& packed() const { return packed_; }

 private:
  std::vector<std::byte> blocks_;
  kvpage::WeightView view_;
  kvpage::AlignedBytes panels_;
  kvpage::PackedWeight packed_;
};

/// Activation rows [num_rows, cols], as given and quantised once for every matrix that they meet.
struct Activations {
  Activations(kvpage::Cpu& cpu, std::int64_t num_rows, std::int64_t cols)
      : x(random_values(num_rows * cols, 2)), memory(kvpage::QuantizedRows::bytes_for(num_rows, cols)),
        input{kvpage::QuantizedRows::place(memory.span(), num_rows, cols), x.data(), cols, num_rows} {
    require(kvpage::quantize_rows(cpu, {x.data(), cols, num_rows, input.quantized}));
  }

  std::vector<float> x;
  kvpage::AlignedBytes memory;
  kvpage::GemmInput input;
};

/// out [num_rows, N] = x * weight^T
inline void multiply(kvpage::Cpu& cpu, const kvpage::PackedWeight& weight, const Activations& x, std::vector<float>& out) {
  out.resize(static_cast<std::size_t>(x.input.num_rows * weight.rows));
  require(kvpage::gemm(cpu, {.weight = weight, .input = x.input, .out = out.data(), .out_stride = weight.rows}));
}

/// The largest share of its allowed distance that an output has from the sum in double over decoded weights. Allowed: what
/// rounding the activations to 8 bits changes, and one float rounding per step of a sum.
inline double distance_from_oracle(const kvpage::WeightView& weight, const Activations& x, const std::vector<float>& out) {
  const std::int64_t cols = weight.cols;
  std::vector<float> w(static_cast<std::size_t>(cols));
  double worst = 0.0;
  for (std::int64_t n = 0; n < weight.rows; ++n) {
    weight.decode_row(n, w.data());
    for (std::int64_t m = 0; m < x.input.num_rows; ++m) {
      double sum = 0.0, allowed = 0.0;
      for (std::int64_t k = 0; k < cols; ++k) {
        const auto value = static_cast<double>(x.x[static_cast<std::size_t>(m * cols + k)]);
        const auto level = static_cast<double>(w[static_cast<std::size_t>(k)]);
        const auto step = static_cast<double>(x.input.quantized.row(m)[k / kvpage::QuantizedGroup::kSize].d);
        sum += level * value;
        allowed += std::fabs(level) * (0.50001 * step + 0x1p-24 * static_cast<double>(cols) * (std::fabs(value) + step));
      }
      worst = std::max(worst, std::fabs(static_cast<double>(out[static_cast<std::size_t>(m * weight.rows + n)]) - sum) / allowed);
    }
  }
  return worst;
}

}  // namespace own
