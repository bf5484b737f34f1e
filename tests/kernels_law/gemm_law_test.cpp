/// \file The law for matrix products of every weight format, with the very kernels that the engine compiled.
#include "kernels/gemm/packed_fixture.hpp"
#include "kernels_law/law.hpp"

#include "engine/backend/cpu_backend.hpp"

#include <kvpage/kernels/gemm/cpu_decoded.hpp>
#include <kvpage/quant/weight_formats.hpp>

#include <optional>

namespace kvpage_test {

/// The engine packs a matrix and thereby tells the kernels that it uses.
const kvpage::PanelKernels& panel_kernels(const kvpage::WeightFormatInfo& format) {
  static std::map<std::string_view, const kvpage::PanelKernels*> known;
  const kvpage::PanelKernels*& kernels = known[format.name];
  if (kernels == nullptr) {
    const RandomWeights weights(format, 1, format.block_elements, 1);
    kvpage::engine::CpuBackend backend({.num_threads = 1});
    backend.reserve_weights(kvpage::engine::CpuBackend::packed_weight_bytes(weights.view()));
    kernels = backend.load(weights.view(), [](auto data) { return data; }).value().packed.kernels;
  }
  return *kernels;
}

std::vector<const kvpage::WeightFormatInfo*> packed_formats() {
  std::vector<const kvpage::WeightFormatInfo*> formats;
  kvpage::for_each_type(kvpage::WeightFormats{}, [&]<class W>() {
    const kvpage::WeightFormatInfo& format = kvpage::kWeightFormatInfo<W>;
    const RandomWeights weights(format, 1, format.block_elements, 1);
    if (kvpage::engine::CpuBackend::packed_weight_bytes(weights.view()) > 0) formats.push_back(&format);
  });
  return formats;
}

namespace {

using kvpage::Cpu;
using kvpage::WeightFormatInfo;

constexpr std::int64_t kNumRows = 40;

std::int64_t some_cols(const WeightFormatInfo& format, LawRandom& random) {
  if (format.block_elements == 1) return random.between(1, 200);
  return format.block_elements * random.between(1, std::max<std::int64_t>(2, 384 / format.block_elements));
}

/// Activations of all rows in both forms, and some of them at a place of their own.
struct InputRows {
  Activations all;
  InputRows(std::int64_t cols, LawRandom& random) : all(kNumRows, cols, random.floats(kNumRows * cols)) {}

  struct Placed {
    PlacedRows x;
    std::vector<kvpage::QuantizedGroup> groups;
    kvpage::GemmInput input;
  };
  Placed place(std::span<const std::int64_t> rows, LawRandom& how) const {
    const std::int64_t num_groups = kvpage::ceil_div(all.cols, kvpage::QuantizedGroup::kSize);
    const std::int64_t row_groups = num_groups + how.between(0, 2);
    Placed placed{PlacedRows(all.x, all.cols, rows, how), {}, {}};
    placed.groups.resize(static_cast<std::size_t>(std::ssize(rows) * row_groups));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::copy_n(all.quantized.row(rows[i]), num_groups, placed.groups.data() + static_cast<std::int64_t>(i) * row_groups);
    }
    placed.input = {{placed.groups.data(), std::ssize(rows), all.cols, row_groups}, placed.x.data(), placed.x.stride(), std::ssize(rows)};
    return placed;
  }
};

kvpage::GemmTuning any_tuning(LawRandom& how) {
  return {.block_rows = how.between(1, 48), .pass_bytes = std::int64_t{64} << how.between(0, 11), .chunk_panels = how.between(1, 9),
          .few_rows_panels = how.between(1, 5)};
}

struct GemmProblem {
  RandomWeights weights;
  std::optional<Packed> packed;  ///< without it the decoding kernel runs
  InputRows x;
  std::vector<float> bias, held;  ///< empty, or [n] and [kNumRows, n]

  GemmProblem(const WeightFormatInfo& format, bool with_panels, LawRandom& random)
      : weights(format, random.between(1, 70), some_cols(format, random), static_cast<std::uint32_t>(random.between(0, 1 << 30))),
        x(weights.view().cols, random) {
    if (with_panels) packed.emplace(weights.view(), 1);
    if (random.one_in(2)) bias = random.floats(n());
    if (random.one_in(2)) held = random.floats(kNumRows * n());
  }
  std::int64_t n() const { return weights.view().rows; }
  std::int64_t num_rows() const { return kNumRows; }
  std::string description() const {
    return std::string(weights.view().format->name) + ", N " + std::to_string(n()) + ", K " + std::to_string(x.all.cols);
  }

  std::vector<RowBytes> run(Cpu& cpu, std::span<const std::int64_t> rows, LawRandom& how) const {
    const InputRows::Placed in = x.place(rows, how);
    PlacedRows out = held.empty() ? PlacedRows(std::ssize(rows), n(), how) : PlacedRows(held, n(), rows, how);
    const float* added = bias.empty() ? nullptr : bias.data();
    const kvpage::Status status =
        packed ? kvpage::gemm(cpu, {packed->weight, in.input, added, out.data(), out.stride(), !held.empty()}, any_tuning(how))
               : kvpage::gemm(cpu, {weights.view(), in.input.x, in.input.x_stride, std::ssize(rows), added, out.data(), out.stride(),
                                    !held.empty()});
    REQUIRE(status.ok());
    return out.bytes(std::ssize(rows));
  }
};

/// Gate and up matrices with the activation at once; the product is quantised too.
struct GluProblem {
  RandomWeights gate, up;
  Packed packed_gate, packed_up;
  InputRows x;
  kvpage::GateActivation activation;

  GluProblem(const WeightFormatInfo& format, LawRandom& random, std::int64_t n, std::int64_t cols)
      : gate(format, n, cols, static_cast<std::uint32_t>(random.between(0, 1 << 30))),
        up(format, n, cols, static_cast<std::uint32_t>(random.between(0, 1 << 30))), packed_gate(gate.view(), 1), packed_up(up.view(), 1),
        x(cols, random), activation(random.one_in(2) ? kvpage::GateActivation::kSilu : kvpage::GateActivation::kGeluTanh) {}
  std::int64_t num_rows() const { return kNumRows; }
  std::string description() const {
    return std::string(gate.view().format->name) + ", N " + std::to_string(gate.view().rows) + ", K " + std::to_string(x.all.cols);
  }

  std::vector<RowBytes> run(Cpu& cpu, std::span<const std::int64_t> rows, LawRandom& how) const {
    const InputRows::Placed in = x.place(rows, how);
    const std::int64_t n = gate.view().rows, num_rows = std::ssize(rows);
    PlacedRows out(num_rows, n, how);
    Activations codes(num_rows, n, std::vector<float>(static_cast<std::size_t>(num_rows * n)));
    REQUIRE(kvpage::gemm_glu(cpu,
                             {packed_gate.weight, packed_up.weight, in.input, activation, out.data(), out.stride(), codes.quantized},
                             any_tuning(how))
                .ok());
    std::vector<RowBytes> all = out.bytes(num_rows);
    for (std::int64_t i = 0; i < num_rows; ++i) {
      const RowBytes groups = bytes_of(codes.quantized.row(i), kvpage::ceil_div(n, kvpage::QuantizedGroup::kSize));
      all[static_cast<std::size_t>(i)].insert(all[static_cast<std::size_t>(i)].end(), groups.begin(), groups.end());
    }
    return all;
  }
};

void packed_law(std::int64_t num_pairs) {
  const auto formats = packed_formats();
  REQUIRE(formats.size() >= 15);
  for (const WeightFormatInfo* format : formats) {
    require_law("gemm " + std::string(format->name), num_pairs, [&](LawRandom& random) { return GemmProblem(*format, true, random); });
  }
}

void other_products_law(std::int64_t num_pairs) {
  std::vector<const WeightFormatInfo*> formats;
  kvpage::for_each_type(kvpage::WeightFormats{}, [&]<class W>() { formats.push_back(&kvpage::kWeightFormatInfo<W>); });
  require_law("decoding gemm", num_pairs, [&](LawRandom& random) { return GemmProblem(*random.pick(formats), false, random); });
  const auto packed = packed_formats();
  require_law("gemm with glu", num_pairs, [&](LawRandom& random) {
    const WeightFormatInfo& format = *random.pick(packed);
    const std::int64_t n = random.between(1, 70);
    return GluProblem(format, random, n, some_cols(format, random));
  });
}

}  // namespace

TEST_CASE("bug.B37.law_of_packed_gemm_in_every_format", "[kernels_law]") { packed_law(kPairsPerChange); }
TEST_CASE("bug.B37.law_of_decoding_gemm_and_glu", "[kernels_law]") { other_products_law(kPairsPerChange); }
TEST_CASE("bug.B37.many_pairs_of_packed_gemm", "[kernels_law][night]") { packed_law(kPairsPerNight); }
TEST_CASE("bug.B37.many_pairs_of_decoding_gemm_and_glu", "[kernels_law][night]") { other_products_law(kPairsPerNight); }

}  // namespace kvpage_test
