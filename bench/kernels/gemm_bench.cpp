/// \file Multiply-adds per second of the packed GEMM per format and instruction set, beside the ceilings of the same run.
///
/// Prints one JSON line per figure: gemm.<isa>.<format>.m<rows>. Weights of 0.5 to 1 MB stay in the cache; m1_memory streams
/// a matrix of 256 MB, measured in bytes of packed weights per second. Arguments: [threads [isa]].
#include "engine/backend/ceilings.hpp"
#include "engine/backend/shipped_kernels.hpp"

#include <kvpage/base/aligned_bytes.hpp>
#include <kvpage/kernels/gemm/cpu_packed.hpp>
#include <kvpage/kernels/quantize_rows/cpu.hpp>
#include <kvpage/quant/weight_formats.hpp>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <new>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace kvpage;
using kvpage::engine::best_seconds;
using kvpage::engine::Ceilings;
using kvpage::engine::MachineCeilings;

void print(const std::string& name, double value, const char* unit, const char* against, double ceiling) {
  std::printf("{\"figure\": \"%s\", \"value\": %.6g, \"unit\": \"%s\", \"against\": \"%s\", \"against_value\": %.6g, \"ratio\": %.4f}\n",
              name.c_str(), value, unit, against, ceiling, value / ceiling);
  std::fflush(stdout);
}

/// A packed matrix of random codes, whose scales do not matter for speed.
class Matrix {
 public:
  Matrix(Cpu& cpu, const WeightFormatInfo& format, std::int64_t rows, std::int64_t cols) {
    const PanelKernels& kernels = **engine::shipped_kernels(format);
    memory_ = AlignedBytes(*packed_bytes(kernels, rows, cols));
    std::vector<std::byte> file(static_cast<std::size_t>(rows * cols / format.block_elements * format.block_bytes), std::byte{0x25});
    const WeightView view = weight_view(format, file.data(), rows, cols);
    const auto packed = pack_weight(cpu, kernels, view, memory_.span());
    if (!packed) throw std::bad_alloc();
    weight_ = *packed;
  }

  const PackedWeight& weight() const { return weight_; }
  std::int64_t bytes() const { return memory_.size(); }

 private:
  AlignedBytes memory_;
  PackedWeight weight_{};
};

/// Seconds of one launch with `num_rows` rows.
double launch_seconds(Cpu& cpu, const PackedWeight& weight, std::int64_t num_rows) {
  std::mt19937 rng(1);
  std::vector<float> x(static_cast<std::size_t>(num_rows * weight.cols));
  for (float& value : x) value = static_cast<float>(rng() >> 8) * 0x1p-23f - 1.0f;
  std::vector<std::byte> memory(static_cast<std::size_t>(QuantizedRows::bytes_for(num_rows, weight.cols)));
  const QuantizedRows quantized = QuantizedRows::place(memory, num_rows, weight.cols);
  std::vector<float> out(static_cast<std::size_t>(num_rows * weight.rows));
  if (!quantize_rows(cpu, {x.data(), weight.cols, num_rows, quantized}).ok()) std::abort();
  const PackedGemmArgs args{weight, {quantized, x.data(), weight.cols, num_rows}, nullptr, out.data(), weight.rows, false};
  const double macs = static_cast<double>(num_rows) * static_cast<double>(weight.rows) * static_cast<double>(weight.cols);
  const int launches = std::max(1, static_cast<int>((cpu.isa() == Isa::kGeneric ? 2e6 : 3e8) / macs));
  const double seconds = best_seconds(7, [&] {
    for (int i = 0; i < launches; ++i) {
      if (!gemm(cpu, args).ok()) std::abort();
    }
  });
  return seconds / launches;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

void measure_format(Cpu& cpu, const WeightFormatInfo& format, const MachineCeilings& ceilings) {
  const std::string name = std::string("gemm.") + isa_name(cpu.isa()) + "." + lower(format.name);
  constexpr std::int64_t kRows = 1536, kCols = 768;
  const Matrix in_cache(cpu, format, kRows, kCols);
  const bool codes = in_cache.weight().kernels->quantized_input;
  for (const std::int64_t num_rows : {1, 2, 4, 8, 24, 512}) {
    if (cpu.isa() == Isa::kGeneric && num_rows > 8) break;
    const double rate = static_cast<double>(num_rows * kRows * kCols) / launch_seconds(cpu, in_cache.weight(), num_rows);
    print(name + ".m" + std::to_string(num_rows), rate, "MAC/s", codes ? "byte dots" : "float multiply-adds",
          codes ? ceilings.code_macs : ceilings.float_macs);
  }
  if (cpu.isa() == Isa::kGeneric) return;
  const std::int64_t row_bytes = in_cache.bytes() / kRows;
  const Matrix large(cpu, format, (std::int64_t{256} << 20) / row_bytes / 32 * 32, kCols);
  print(name + ".m1_memory", static_cast<double>(large.bytes()) / launch_seconds(cpu, large.weight(), 1), "B/s", "memory reads",
        ceilings.memory_bytes);
}

}  // namespace

int main(int argc, char** argv) {
  const int num_threads = argc > 1 ? std::atoi(argv[1]) : 0;
  const auto only = argc > 2 ? parse_isa(argv[2]) : std::nullopt;
  for (const Isa isa : kAllIsas) {
    if ((only && isa != *only) || missing_feature(isa, detect_cpu_features()) != nullptr) continue;
    Cpu cpu({.num_threads = num_threads, .isa = isa});
    const MachineCeilings measured = Ceilings(cpu).measure();
    const std::string prefix = std::string("ceiling.") + isa_name(isa);
    print(prefix + ".byte_dots", measured.code_macs, "MAC/s", "itself", measured.code_macs);
    print(prefix + ".float_fma", measured.float_macs, "MAC/s", "itself", measured.float_macs);
    print(prefix + ".memory", measured.memory_bytes, "B/s", "itself", measured.memory_bytes);
    for_each_type(WeightFormats{}, [&]<class W>() { measure_format(cpu, kWeightFormatInfo<W>, measured); });
  }
  return 0;
}
