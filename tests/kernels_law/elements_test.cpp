/// \file Rows of 16-bit floats: what a kernel makes of them is what it makes of the same values as floats, rounded once.
#include "support/catch.hpp"
#include "support/isa.hpp"
#include "support/random_floats.hpp"

#include <kvpage/kernels/activation/cpu.hpp>
#include <kvpage/kernels/activation/reference.hpp>
#include <kvpage/kernels/append_kv/cpu.hpp>
#include <kvpage/kernels/append_kv/reference.hpp>
#include <kvpage/kernels/embedding/reference.hpp>
#include <kvpage/kernels/gemm/reference.hpp>
#include <kvpage/kernels/paged_attention/cpu.hpp>
#include <kvpage/kernels/paged_attention/reference.hpp>
#include <kvpage/kernels/quantize_rows/reference.hpp>
#include <kvpage/kernels/rms_norm/cpu.hpp>
#include <kvpage/kernels/rms_norm/reference.hpp>
#include <kvpage/kernels/rope/cpu.hpp>
#include <kvpage/kernels/rope/reference.hpp>
#include <kvpage/kernels/sample/reference.hpp>
#include <kvpage/kv/kv_pool.hpp>
#include <kvpage/kv/kv_formats.hpp>
#include <kvpage/precision/precisions.hpp>
#include <kvpage/quant/weight_formats.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

using namespace kvpage;

namespace {

/// Rows of E, and the same values as floats.
template <class E>
struct Rows {
  explicit Rows(std::int64_t count, std::uint32_t seed = 0) {
    if (seed == 0) codes.assign(static_cast<std::size_t>(count), ElementCodec<E>::encode(-7.0f));
    else for (const float x : kvpage_test::random_floats(count, seed, -3.0f, 3.0f)) codes.push_back(ElementCodec<E>::encode(x));
    for (const Stored<E> code : codes) floats.push_back(ElementCodec<E>::decode(code));
  }
  /// What `floats` are now, rounded.
  std::vector<Stored<E>> rounded() const {
    std::vector<Stored<E>> result;
    for (const float x : floats) result.push_back(ElementCodec<E>::encode(x));
    return result;
  }
  bool agree() const { return codes == rounded(); }
  std::vector<Stored<E>> codes;
  std::vector<float> floats;
};

/// Runs `fn` for each precision of 16 bits, and on each instruction set with one and three workers.
template <class Fn>
void for_each_half(Fn&& fn) {
  std::int64_t num_precisions = 0;
  for_each_type(Precisions{}, [&]<class P>() {
    if constexpr (P::kBits == 16) {
      ++num_precisions;
      INFO(std::string(P::kName));
      fn.template operator()<P>();
    }
  });
  CHECK(num_precisions == 2);
}
template <class Fn>
void for_each_cpu(Fn&& fn) {
  for (const Isa isa : kvpage_test::runnable_isas()) {
    INFO(isa_name(isa));
    for (const int num_threads : {1, 3}) {
      Cpu cpu({.num_threads = num_threads, .isa = isa});
      fn(cpu);
    }
  }
}

/// The reference's rows, but for roundings to the other side of a code's edge and for `error`, that of the arithmetic.
template <class E>
void require_near(const std::vector<Stored<E>>& a, const std::vector<Stored<E>>& b, float error = 1e-5f) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float x = ElementCodec<E>::decode(a[i]), y = ElementCodec<E>::decode(b[i]);
    REQUIRE(std::fabs(x - y) <= 2.0f * E::kTolerance * std::fabs(y) + error);
  }
}

constexpr std::int64_t kDims[] = {1, 16, 17, 40, 96, 133};

}  // namespace

TEST_CASE("kernels_law.elements.norms_of_16_bit_rows_are_rounded_norms", "[kernels_law]") {
  for_each_half([]<class E>() {
    for (const std::int64_t dim : kDims) {
      CAPTURE(dim);
      const auto weight = kvpage_test::random_floats(dim, 9);
      const std::int64_t stride = dim + 3;
      Rows<E> x(5 * stride, 1), residual(5 * stride, 2);
      for (const bool adds : {false, true}) {
        Rows<E> out(5 * stride);
        const auto args = [&]<class Args>(std::type_identity<Args>, const auto* in, const auto* before, auto* to) {
          return Args{in, stride, weight.data(), adds ? before : nullptr, stride, to, stride, 5, dim, 1e-5f};
        };
        const auto floats = args(std::type_identity<RmsNormArgs>{}, x.floats.data(), residual.floats.data(), out.floats.data());
        const auto codes = args(std::type_identity<BasicRmsNormArgs<E>>{}, x.codes.data(), residual.codes.data(), out.codes.data());
        const auto before = out.codes;
        for_each_cpu([&](Cpu& cpu) {
          out.codes = before;
          REQUIRE(rms_norm(cpu, floats).ok());
          REQUIRE(rms_norm(cpu, codes).ok());
          CHECK(out.agree());
        });
        const auto fast = out.codes;
        REQUIRE(reference::rms_norm(floats).ok());
        REQUIRE(reference::rms_norm(codes).ok());
        CHECK(out.agree());
        require_near<E>(fast, out.codes);
        // From the residual stream in floats to rows of codes.
        Rows<E> mixed(5 * stride);
        Cpu cpu({.num_threads = 1});
        const BasicRmsNormArgs<float, E> narrow{.x = x.floats.data(), .x_stride = stride, .weight = weight.data(),
                                                .out = mixed.codes.data(), .out_stride = stride, .num_rows = 5, .dim = dim};
        const RmsNormArgs wide{.x = x.floats.data(), .x_stride = stride, .weight = weight.data(), .out = mixed.floats.data(),
                               .out_stride = stride, .num_rows = 5, .dim = dim};
        REQUIRE(rms_norm(cpu, narrow).ok());
        REQUIRE(rms_norm(cpu, wide).ok());
        CHECK(mixed.agree());
      }
    }
  });
}

TEST_CASE("kernels_law.elements.rotations_of_16_bit_heads_are_rounded_rotations", "[kernels_law]") {
  const std::vector<std::int64_t> positions{0, 3, 70, 4095, 100'000};
  for_each_half([&]<class E>() {
    for (const auto pairing : {RopePairing::kHalf, RopePairing::kAdjacent}) {
      for (const std::int64_t rotary_dim : {2, 34, 64, 80}) {
        CAPTURE(static_cast<int>(pairing), rotary_dim);
        const auto inv_freq = kvpage_test::random_floats(rotary_dim / 2, 4, 1e-4f, 1.0f);
        const Rows<E> start(5 * 250, 3);
        Rows<E> rows = start;
        const auto floats = [&] {
          return RopeArgs{rows.floats.data(), 250, 5, 3, 80, rotary_dim, positions.data(), inv_freq.data(), pairing};
        };
        const auto codes = [&] {
          return BasicRopeArgs<E>{rows.codes.data(), 250, 5, 3, 80, rotary_dim, positions.data(), inv_freq.data(), pairing};
        };
        for_each_cpu([&](Cpu& cpu) {
          rows = start;
          REQUIRE(rope(cpu, floats()).ok());
          REQUIRE(rope(cpu, codes()).ok());
          CHECK(rows.agree());
        });
        const auto fast = rows.codes;
        rows = start;
        REQUIRE(reference::rope(floats()).ok());
        REQUIRE(reference::rope(codes()).ok());
        CHECK(rows.agree());
        require_near<E>(fast, rows.codes);
      }
    }
  });
}

TEST_CASE("kernels_law.elements.gates_and_caps_of_16_bit_rows_are_rounded", "[kernels_law]") {
  for_each_half([]<class E>() {
    for (const std::int64_t dim : kDims) {
      const Rows<E> gate(4 * dim, 5), up(4 * dim, 6);
      for (const auto activation : {GateActivation::kSilu, GateActivation::kGeluTanh}) {
        CAPTURE(dim, static_cast<int>(activation));
        Rows<E> out(4 * dim);
        const GluArgs floats{gate.floats.data(), dim, up.floats.data(), dim, out.floats.data(), dim, 4, dim, activation};
        const BasicGluArgs<E> codes{gate.codes.data(), dim, up.codes.data(), dim, out.codes.data(), dim, 4, dim, activation};
        for_each_cpu([&](Cpu& cpu) {
          REQUIRE(glu(cpu, floats).ok());
          REQUIRE(glu(cpu, codes).ok());
          CHECK(out.agree());
        });
        const auto fast = out.codes;
        REQUIRE(reference::glu(floats).ok());
        REQUIRE(reference::glu(codes).ok());
        CHECK(out.agree());
        require_near<E>(fast, out.codes);
      }
      Rows<E> x = gate;
      for_each_cpu([&](Cpu& cpu) {
        x = gate;
        REQUIRE(soft_cap(cpu, {x.floats.data(), dim, 4, dim, 2.0f}).ok());
        REQUIRE(soft_cap(cpu, BasicSoftCapArgs<E>{x.codes.data(), dim, 4, dim, 2.0f}).ok());
        CHECK(x.agree());
      });
      const auto fast = x.codes;
      x = gate;
      REQUIRE(reference::soft_cap(BasicSoftCapArgs<E>{x.codes.data(), dim, 4, dim, 2.0f}).ok());
      require_near<E>(fast, x.codes);
    }
  });
}

namespace {

constexpr std::int64_t kHeads = 2, kQueryHeads = 6, kHeadDim = 48, kTokens = 70, kKVRow = kHeads * kHeadDim, kRow = kQueryHeads * kHeadDim;

/// A pool of one layer for a sequence of 70 tokens.
template <class KV>
struct Pool {
  Pool() : memory(static_cast<std::size_t>(pool_bytes<KV>(shape)) + 64) {
    for (std::uint32_t t = 0; t < kTokens; ++t) slots.push_back({ids[t / 32], t % 32});
  }
  std::span<std::byte> bytes() {
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    return std::span(memory).subspan((64 - address % 64) % 64, static_cast<std::size_t>(pool_bytes<KV>(shape)));
  }
  PagedKVView<KV> view() { return KVPool<KV>(shape, bytes()).view(0, {indptr, ids, &kv_len, 1}); }
  template <class E>
  AppendKvArgs<KV, E> append(const std::vector<Stored<E>>& k, const std::vector<Stored<E>>& v) {
    return {.view = view(), .k = k.data(), .v = v.data(), .k_stride = kKVRow, .v_stride = kKVRow, .slots = slots.data(),
            .num_tokens = kTokens};
  }
  KVPoolShape shape{1, kHeads, kHeadDim, 32, 4};
  std::vector<std::byte> memory;
  std::vector<KVSlot> slots;
  const std::int64_t indptr[2] = {0, 3};
  const BlockId ids[3] = {BlockId{2}, BlockId{0}, BlockId{3}};
  const std::int64_t kv_len = kTokens;
};

template <class E, class KV>
void check_attention(Cpu& cpu, Pool<KV>& pool) {
  const std::int64_t num_rows = 40;
  const QuerySpan seq{0, num_rows, kTokens - num_rows};
  Rows<E> q(num_rows * kRow, 13), out(num_rows * kRow), lse(num_rows * kQueryHeads);
  auto other_lse = lse.floats;
  std::vector<std::byte> memory(static_cast<std::size_t>(paged_attention_scratch_bytes<KV>(cpu, pool.shape.dims(), kQueryHeads)) + 64);
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  const auto fill = [&](auto args, const auto* queries, auto* result, float* sums) {
    args.q = queries, args.out = result, args.lse = sums;
    args.q_stride = args.out_stride = kRow, args.num_tokens = num_rows, args.num_q_heads = kQueryHeads;
    args.seqs = &seq, args.view = pool.view(), args.scale = 0.15f;
    args.scratch = std::span(memory).subspan((64 - address % 64) % 64, memory.size() - 64);
    return args;
  };
  const auto floats = fill(PagedAttentionArgs<KV>{}, q.floats.data(), out.floats.data(), lse.floats.data());
  const auto codes = fill(PagedAttentionArgs<KV, E>{}, q.codes.data(), out.codes.data(), other_lse.data());
  REQUIRE(paged_attention(cpu, floats).ok());
  REQUIRE(paged_attention(cpu, codes).ok());
  CHECK(out.agree());
  CHECK(other_lse == lse.floats);
  const auto fast = out.codes;
  REQUIRE(reference::paged_attention(floats).ok());
  REQUIRE(reference::paged_attention(codes).ok());
  CHECK(out.agree());
  require_near<E>(fast, out.codes, 1e-3f);  // weights of 14 bits
  Rows<E> wide(num_rows * kRow);
  const auto mixed = fill(PagedAttentionArgs<KV, E, float>{}, q.codes.data(), wide.floats.data(), other_lse.data());
  REQUIRE(paged_attention(cpu, floats).ok());
  REQUIRE(paged_attention(cpu, mixed).ok());
  CHECK(wide.floats == out.floats);
}

}  // namespace

TEST_CASE("kernels_law.elements.appends_and_attention_of_16_bit_rows_are_those_of_floats", "[kernels_law]") {
  for_each_half([]<class E>() {
    const Rows<E> k(kTokens * kKVRow, 11), v(kTokens * kKVRow, 12);
    const auto check = [&]<class Format>() {
      using KV = CpuKV<Format>;
      for_each_cpu([&](Cpu& cpu) {
        Pool<KV> floats, codes, slow;
        REQUIRE(append_kv(cpu, floats.template append<float>(k.floats, v.floats)).ok());
        REQUIRE(append_kv(cpu, codes.template append<E>(k.codes, v.codes)).ok());
        CHECK(std::memcmp(floats.bytes().data(), codes.bytes().data(), codes.bytes().size()) == 0);
        REQUIRE(reference::append_kv(slow.template append<E>(k.codes, v.codes)).ok());
        if (!Format::Key::kRotated) CHECK(std::memcmp(slow.bytes().data(), codes.bytes().data(), codes.bytes().size()) == 0);
        check_attention<E>(cpu, codes);
      });
    };
    check.template operator()<DefaultKVFormat>();
    check.template operator()<Int8KV>();
  });
}

TEST_CASE("kernels_law.elements.reference_lookups_products_codes_and_draws_of_16_bit_rows", "[kernels_law]") {
  for_each_half([]<class E>() {
    const auto table = kvpage_test::random_floats(40 * 64, 21);
    const WeightView weight = weight_view<F32Weight>(reinterpret_cast<const std::byte*>(table.data()), 40, 64);
    const std::vector<TokenId> tokens{0, 39, 7};
    Rows<E> looked_up(3 * 64);
    REQUIRE(reference::embedding({weight, tokens.data(), 3, 1.5f, looked_up.floats.data(), 64}).ok());
    REQUIRE(reference::embedding(BasicEmbeddingArgs<E>{weight, tokens.data(), 3, 1.5f, looked_up.codes.data(), 64}).ok());
    CHECK(looked_up.agree());

    const Rows<E> x(3 * 64, 22);
    Rows<E> product(3 * 40, 23);
    REQUIRE(reference::gemm({weight, x.floats.data(), 64, 3, nullptr, product.floats.data(), 40, true}).ok());
    REQUIRE(reference::gemm(BasicGemmArgs<E>{weight, x.codes.data(), 64, 3, nullptr, product.codes.data(), 40, true}).ok());
    CHECK(product.agree());

    std::vector<QuantizedGroup> groups(12), expected(12);
    REQUIRE(reference::quantize_rows({x.floats.data(), 64, 3, {expected.data(), 3, 64, 2}}).ok());
    REQUIRE(reference::quantize_rows(BasicQuantizeRowsArgs<E>{x.codes.data(), 64, 3, {groups.data(), 3, 64, 2}}).ok());
    CHECK(std::memcmp(groups.data(), expected.data(), sizeof(QuantizedGroup) * 6) == 0);
    CHECK(groups[5].d > 0.0f);

    for (std::uint32_t position = 0; position < 20; ++position) {
      const SampleArgs floats{.logits = x.floats.data(), .vocab_size = 190, .params = {.top_k = 50, .seed = 3}, .position = position};
      const BasicSampleArgs<E> codes{.logits = x.codes.data(), .vocab_size = 190, .params = {.top_k = 50, .seed = 3}, .position = position};
      const DrawResult drawn = reference::sample_row(codes);
      REQUIRE(drawn);
      CHECK(*drawn == *reference::sample_row(floats));
    }
  });
}
