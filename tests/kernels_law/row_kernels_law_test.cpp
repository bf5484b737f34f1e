/// \file The law for the kernels that take one row after another: codes, norms, rotation, gates, soft cap, embedding, keys and values.
#include "kernels_law/law.hpp"

#include "kernels/gemm/packed_fixture.hpp"

#include <kvpage/kernels/activation/cpu.hpp>
#include <kvpage/kernels/append_kv/cpu.hpp>
#include <kvpage/kernels/embedding/cpu.hpp>
#include <kvpage/kernels/rms_norm/cpu.hpp>
#include <kvpage/kernels/rope/cpu.hpp>
#include <kvpage/kv/kv_formats.hpp>
#include <kvpage/kv/kv_pool.hpp>
#include <kvpage/quant/weight_formats.hpp>

#include <cstring>

namespace kvpage_test {
namespace {

using kvpage::Cpu;
using kvpage::Status;

constexpr std::int64_t kNumRows = 40;

/// What the simple kernels have in common: rows of `cols` floats.
struct FloatRows {
  std::int64_t cols;
  std::vector<float> x;  // [kNumRows, cols]
  FloatRows(std::int64_t c, LawRandom& random) : cols(c), x(random.floats(kNumRows * c)) {}
  std::int64_t num_rows() const { return kNumRows; }
  std::string description() const { return "rows of " + std::to_string(cols); }
};

struct QuantizeProblem : FloatRows {
  kvpage::GroupScale group_scale;
  explicit QuantizeProblem(LawRandom& random)
      : FloatRows(random.between(1, 700), random),
        group_scale(random.one_in(2) ? kvpage::GroupScale::kLargest : kvpage::GroupScale::kSearched) {}

  std::vector<RowBytes> run(Cpu& cpu, std::span<const std::int64_t> rows, LawRandom& how) const {
    PlacedRows in(x, cols, rows, how);
    const std::int64_t num_groups = kvpage::ceil_div(cols, kvpage::QuantizedGroup::kSize), row_groups = num_groups + how.between(0, 2);
    std::vector<kvpage::QuantizedGroup> groups(static_cast<std::size_t>(std::ssize(rows) * row_groups));
    const kvpage::QuantizedRows codes{groups.data(), std::ssize(rows), cols, row_groups};
    REQUIRE(kvpage::quantize_rows(cpu, {in.data(), in.stride(), std::ssize(rows), codes, group_scale}).ok());
    std::vector<RowBytes> all;
    for (std::int64_t i = 0; i < std::ssize(rows); ++i) all.push_back(bytes_of(groups.data() + i * row_groups, num_groups));
    return all;
  }
};

struct NormProblem : FloatRows {
  std::vector<float> weight, residual;
  explicit NormProblem(LawRandom& random) : FloatRows(random.between(1, 700), random), weight(random.floats(cols)) {
    if (random.one_in(2)) residual = random.floats(kNumRows * cols);
  }

  std::vector<RowBytes> run(Cpu& cpu, std::span<const std::int64_t> rows, LawRandom& how) const {
    PlacedRows in(x, cols, rows, how), out(std::ssize(rows), cols, how);
    PlacedRows added = residual.empty() ? out : PlacedRows(residual, cols, rows, how);
    PlacedRows* target = how.one_in(3) ? &in : (!residual.empty() && how.one_in(2) ? &added : &out);
    REQUIRE(kvpage::rms_norm(cpu, {in.data(), in.stride(), weight.data(), residual.empty() ? nullptr : added.data(), added.stride(),
                                   target->data(), target->stride(), std::ssize(rows), cols, 1e-5f})
                .ok());
    return target->bytes(std::ssize(rows));
  }
};

struct RopeProblem : FloatRows {
  static constexpr std::int64_t kHeadDims[] = {8, 32, 64, 72, 80, 128};
  std::int64_t head_dim, rotary_dim;
  std::vector<std::int64_t> positions;
  std::vector<float> inv_freq;
  kvpage::RopePairing pairing;

  explicit RopeProblem(LawRandom& random) : RopeProblem(random.pick(kHeadDims), random.between(1, 5), random) {}
  RopeProblem(std::int64_t dim, std::int64_t num_heads, LawRandom& random)
      : FloatRows(dim * num_heads, random), head_dim(dim), rotary_dim(2 * random.between(1, dim / 2)),
        inv_freq(random.floats(rotary_dim / 2, 1e-5f, 1.0f)),
        pairing(random.one_in(2) ? kvpage::RopePairing::kHalf : kvpage::RopePairing::kAdjacent) {
    for (std::int64_t i = 0; i < kNumRows; ++i) positions.push_back(random.one_in(8) ? 0 : random.between(0, 100'000));
  }

  std::vector<RowBytes> run(Cpu& cpu, std::span<const std::int64_t> rows, LawRandom& how) const {
    PlacedRows out(x, cols, rows, how);
    std::vector<std::int64_t> places;
    for (const std::int64_t row : rows) places.push_back(positions[static_cast<std::size_t>(row)]);
    REQUIRE(kvpage::rope(cpu, {out.data(), out.stride(), std::ssize(rows), cols / head_dim, head_dim, rotary_dim, places.data(),
                               inv_freq.data(), pairing, 1.25f})
                .ok());
    return out.bytes(std::ssize(rows));
  }
};

struct GateProblem : FloatRows {
  std::vector<float> up;
  kvpage::GateActivation activation;
  explicit GateProblem(LawRandom& random)
      : FloatRows(random.between(1, 700), random), up(random.floats(kNumRows * cols)),
        activation(random.one_in(2) ? kvpage::GateActivation::kSilu : kvpage::GateActivation::kGeluTanh) {}

  std::vector<RowBytes> run(Cpu& cpu, std::span<const std::int64_t> rows, LawRandom& how) const {
    PlacedRows gate(x, cols, rows, how), factor(up, cols, rows, how), out(std::ssize(rows), cols, how);
    PlacedRows* targets[] = {&gate, &factor, &out};
    PlacedRows* target = how.pick(targets);
    REQUIRE(kvpage::glu(cpu, {gate.data(), gate.stride(), factor.data(), factor.stride(), target->data(), target->stride(),
                              std::ssize(rows), cols, activation})
                .ok());
    return target->bytes(std::ssize(rows));
  }
};

struct SoftCapProblem : FloatRows {
  float cap;
  explicit SoftCapProblem(LawRandom& random) : FloatRows(random.between(1, 9000), random), cap(random.one_in(2) ? 0.5f : 30.0f) {}

  std::vector<RowBytes> run(Cpu& cpu, std::span<const std::int64_t> rows, LawRandom& how) const {
    PlacedRows out(x, cols, rows, how);
    REQUIRE(kvpage::soft_cap(cpu, {out.data(), out.stride(), std::ssize(rows), cols, cap}).ok());
    return out.bytes(std::ssize(rows));
  }
};

/// Rows are tokens; the table is any format, as the file has it or, if that is possible, in the panels of the output matrix.
struct EmbeddingProblem {
  RandomWeights weights;
  std::optional<Packed> packed;
  std::vector<kvpage::TokenId> tokens;

  EmbeddingProblem(const kvpage::WeightFormatInfo& format, bool has_panels, LawRandom& random)
      : weights(format, 64, std::max<std::int64_t>(format.block_elements, 32) * random.between(1, 2),
                static_cast<std::uint32_t>(random.between(0, 1 << 30))) {
    if (has_panels) packed.emplace(weights.view(), 1);
    for (const std::int64_t id : random.some_of(64, kNumRows)) tokens.push_back(static_cast<kvpage::TokenId>(id));
  }
  std::int64_t num_rows() const { return kNumRows; }
  std::string description() const { return std::string(weights.view().format->name); }

  std::vector<RowBytes> run(Cpu& cpu, std::span<const std::int64_t> rows, LawRandom& how) const {
    std::vector<kvpage::TokenId> ids;
    for (const std::int64_t row : rows) ids.push_back(tokens[static_cast<std::size_t>(row)]);
    const kvpage::WeightView view = weights.view();
    PlacedRows out(std::ssize(rows), view.cols, how);
    const kvpage::EmbeddingTable table = packed && how.one_in(2) ? kvpage::EmbeddingTable(packed->weight) : kvpage::EmbeddingTable(view);
    REQUIRE(kvpage::embedding(cpu, {table, ids.data(), std::ssize(rows), 1.5f, out.data(), out.stride()}).ok());
    return out.bytes(std::ssize(rows));
  }
};

void row_kernels_law(std::int64_t num_pairs) {
  require_law("quantize_rows", num_pairs, [](LawRandom& random) { return QuantizeProblem(random); });
  require_law("rms_norm", num_pairs, [](LawRandom& random) { return NormProblem(random); });
  require_law("rope", num_pairs, [](LawRandom& random) { return RopeProblem(random); });
  require_law("glu", num_pairs, [](LawRandom& random) { return GateProblem(random); });
  require_law("soft_cap", num_pairs, [](LawRandom& random) { return SoftCapProblem(random); });
  std::vector<const kvpage::WeightFormatInfo*> formats;
  kvpage::for_each_type(kvpage::WeightFormats{}, [&]<class W>() { formats.push_back(&kvpage::kWeightFormatInfo<W>); });
  const auto panels = packed_formats();
  require_law("embedding", num_pairs, [&](LawRandom& random) {
    const kvpage::WeightFormatInfo* format = random.pick(formats);
    return EmbeddingProblem(*format, std::find(panels.begin(), panels.end(), format) != panels.end(), random);
  });
}

}  // namespace

TEST_CASE("bug.B37.law_of_kernels_over_rows", "[kernels_law]") { row_kernels_law(kPairsPerChange); }
TEST_CASE("bug.B37.many_pairs_of_kernels_over_rows", "[kernels_law][night]") { row_kernels_law(kPairsPerNight); }

}  // namespace kvpage_test
