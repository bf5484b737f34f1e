/// \file project_heads in one launch: queries and pages have the bits of one launch after the other.
#include "engine/backend/cpu_backend.hpp"
#include "engine/backend/launcher.hpp"
#include "support/catch.hpp"
#include "support/isa.hpp"
#include "support/random_floats.hpp"

#include <kvpage/base/aligned_bytes.hpp>
#include <kvpage/kv/kv_pool.hpp>
#include <kvpage/quant/weight_formats.hpp>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace kvpage_test {
namespace {

using namespace kvpage;
using namespace kvpage::engine;

/// What differs between architectures.
struct HeadsCase {
  std::int64_t num_q_heads, num_kv_heads, head_dim, rotary_dim, num_tokens;
  RopePairing pairing;
  bool has_norms, has_biases;
};

/// A matrix of random codes with moderate scales.
template <class W>
std::vector<std::byte> blocks(std::int64_t rows, std::int64_t cols, std::uint32_t seed) {
  const WeightFormatInfo& format = kWeightFormatInfo<W>;
  std::vector<std::byte> file(static_cast<std::size_t>(rows * cols / format.block_elements * format.block_bytes));
  std::mt19937 rng(seed);
  const auto block_bytes = static_cast<std::size_t>(format.block_bytes);
  for (std::size_t i = 0; i < file.size(); ++i) {
    // Every shipped format of 32-blocks begins with its half scale (and minimum): an exponent that keeps both near 1/16.
    const std::size_t place = i % block_bytes;
    const bool is_exponent = place == 1 || (std::is_same_v<W, Q4_1> && place == 3);
    file[i] = is_exponent ? std::byte{0x2c} : static_cast<std::byte>(rng() & 0xff);
  }
  return file;
}

/// One layer's input, weights and page pool.
template <KVFormat Format>
class Problem {
 public:
  using KV = CpuBackend::KV<Format>;
  Problem(const HeadsCase& shape, CpuBackend& backend)
      : shape_(shape), backend_(backend), pool_shape_{1, shape.num_kv_heads, shape.head_dim, 16, 8},
        x_(random_floats(shape.num_tokens * kHidden, 1, -2.0f, 2.0f)), bias_(random_floats(q_rows() + 2 * kv_rows(), 2)),
        norm_(random_floats(shape.head_dim, 3, 0.5f, 1.5f)), inv_freq_(random_floats(shape.rotary_dim / 2, 4, 0.01f, 1.0f)) {
    files_ = {blocks<Q4_1>(q_rows(), kHidden, 5), blocks<Q8_0>(kv_rows(), kHidden, 6), blocks<Q4_0>(kv_rows(), kHidden, 7)};
    const WeightView views[]{weight_view(kWeightFormatInfo<Q4_1>, files_[0].data(), q_rows(), kHidden),
                             weight_view(kWeightFormatInfo<Q8_0>, files_[1].data(), kv_rows(), kHidden),
                             weight_view(kWeightFormatInfo<Q4_0>, files_[2].data(), kv_rows(), kHidden)};
    std::int64_t bytes = 0;
    for (const WeightView& view : views) bytes += CpuBackend::packed_weight_bytes(view);
    backend_.reserve_weights(bytes);
    for (const WeightView& view : views) weights_.push_back(*backend_.load(view, [](std::span<const std::byte> data) { return data; }));
    rotation_.resize(static_cast<std::size_t>(2 * shape.rotary_dim));
    fill_page_rotation(inv_freq_.data(), shape.rotary_dim, 2, rotation_.data());
    for (std::int64_t t = 0; t < shape.num_tokens; ++t) {
      positions_.push_back(t);
      const auto place = static_cast<std::uint32_t>(t);
      slots_.push_back(t % 5 == 4 ? kNoSlot : KVSlot{BlockId{7 - place / 16}, place % 16});
    }
    REQUIRE(backend_.prepare({x_.data(), kHidden, shape.num_tokens, kHidden}, input_).ok());
  }

  /// Queries and the whole pool after `project`.
  template <class Project>
  std::vector<std::byte> run(const Project& project) {
    const AlignedBytes pool(pool_bytes<KV>(pool_shape_), std::byte{0x5a});
    std::vector<float> q(rows_of(q_rows()), -1.0f), k(rows_of(kv_rows()), -1.0f), v(rows_of(kv_rows()), -1.0f);
    const auto args = args_for(KVPool<KV>(pool_shape_, pool.span()).view(0), q, k, v);
    REQUIRE(project(args).ok());
    std::vector<std::byte> result(pool.span().begin(), pool.span().end());
    for (const auto* rows : {&q, &k, &v}) {
      REQUIRE(std::all_of(rows->begin(), rows->end(), [](float value) { return std::fabs(value) < 1e4f; }));
      const auto bytes = std::as_bytes(std::span(*rows));
      result.insert(result.end(), bytes.begin(), bytes.end());
    }
    return result;
  }

 private:
  static constexpr std::int64_t kHidden = 96;
  std::int64_t q_rows() const { return shape_.num_q_heads * shape_.head_dim; }
  std::int64_t kv_rows() const { return shape_.num_kv_heads * shape_.head_dim; }
  std::size_t rows_of(std::int64_t cols) const { return static_cast<std::size_t>(shape_.num_tokens * cols); }

  RmsNormArgs norm(std::vector<float>& heads, std::int64_t num_heads) const {
    if (!shape_.has_norms) return {};
    const std::int64_t dim = shape_.head_dim;
    return {.x = heads.data(), .x_stride = dim, .weight = norm_.data(), .out = heads.data(), .out_stride = dim,
            .num_rows = shape_.num_tokens * num_heads, .dim = dim};
  }
  RopeArgs rope(std::vector<float>& heads, std::int64_t num_heads) const {
    return {.x = heads.data(), .token_stride = num_heads * shape_.head_dim, .num_tokens = shape_.num_tokens, .num_heads = num_heads,
            .head_dim = shape_.head_dim, .rotary_dim = shape_.rotary_dim, .positions = positions_.data(), .inv_freq = inv_freq_.data(),
            .pairing = shape_.pairing};
  }
  CpuBackend::Heads<KV> args_for(const PagedKVView<KV>& view, std::vector<float>& q, std::vector<float>& k, std::vector<float>& v) const {
    const float* bias = shape_.has_biases ? bias_.data() : nullptr;
    KeyBias key_bias;
    if (bias != nullptr && !shape_.has_norms) {
      key_bias = {bias + q_rows(), rotation_.data(), 2, shape_.rotary_dim, shape_.pairing == RopePairing::kAdjacent};
    }
    const auto product = [this](std::size_t matrix, const float* its_bias, std::vector<float>& out, std::int64_t rows) {
      return MatmulArgs<CpuBackend::Weight, CpuBackend::Input>{StepOperation::kQkv, &weights_[matrix], &input_, its_bias, out.data(), rows};
    };
    return {.products = {product(0, bias, q, q_rows()), product(1, bias != nullptr ? bias + q_rows() : nullptr, k, kv_rows()),
                         product(2, nullptr, v, kv_rows())},
            .norms = {norm(q, shape_.num_q_heads), norm(k, shape_.num_kv_heads)},
            .ropes = {rope(q, shape_.num_q_heads), rope(k, shape_.num_kv_heads)},
            .append = {.view = view, .k = k.data(), .v = v.data(), .k_stride = kv_rows(), .v_stride = kv_rows(), .slots = slots_.data(),
                       .num_tokens = shape_.num_tokens, .positions = positions_.data(), .key_bias = key_bias}};
  }

  HeadsCase shape_;
  CpuBackend& backend_;
  KVPoolShape pool_shape_;
  std::vector<float> x_, bias_, norm_, inv_freq_, rotation_;
  std::vector<std::vector<std::byte>> files_;
  std::vector<CpuBackend::Weight> weights_;
  std::vector<std::int64_t> positions_;
  std::vector<KVSlot> slots_;
  CpuBackend::Input input_;
};

}  // namespace

TEST_CASE("engine.heads.one_launch_gives_the_bits_of_separate_ones", "[engine]") {
  const HeadsCase cases[]{{9, 3, 64, 64, 1, RopePairing::kAdjacent, false, false}, {9, 3, 64, 64, 50, RopePairing::kHalf, false, true},
                          {3, 1, 128, 64, 30, RopePairing::kHalf, false, false},   {2, 1, 256, 256, 26, RopePairing::kHalf, true, false},
                          {6, 2, 80, 80, 33, RopePairing::kAdjacent, true, true},  {4, 4, 16, 8, 7, RopePairing::kHalf, false, true}};
  for (const Isa isa : runnable_isas()) {
    for (const HeadsCase& shape : cases) {
      for_each_type(KVFormats{}, [&]<class Format>() {
        CpuBackend backend({.num_threads = 3, .isa = isa_name(isa)});
        Problem<Format> problem(shape, backend);
        INFO(isa_name(isa) << ", " << std::string(Format::kName) << ", head_dim " << shape.head_dim << ", tokens " << shape.num_tokens);
        const auto apart = problem.run([&](const auto& args) {
          Launcher<CpuBackend> run(backend);
          run.project_heads_apart(args);
          return run.status();
        });
        const auto fused = problem.run([&](const auto& args) {
          REQUIRE(backend.fuses(args));
          return backend.project_heads(args);
        });
        REQUIRE(fused == apart);
      });
    }
  }
}

}  // namespace kvpage_test
