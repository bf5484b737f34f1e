/// \file append_kv: the fast kernel against the reference, untouched neighbours, equal bits in any batch, refusals.
#include "support/catch.hpp"
#include "support/no_scale.hpp"

#include <kvpage/base/aligned_bytes.hpp>
#include <kvpage/kernels/append_kv/cpu.hpp>
#include <kvpage/kernels/append_kv/reference.hpp>
#include <kvpage/kv/kv_formats.hpp>
#include <kvpage/kv/kv_pool.hpp>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

using namespace kvpage;

namespace {

/// A poisoned pool of 4 pages, and rows of 20 tokens of which every third is not written.
template <KVStorage KV>
struct Case {
  explicit Case(std::int64_t head_dim, std::int64_t block_size) : shape{2, 3, head_dim, block_size, 4} {
    memory = AlignedBytes(pool_bytes<KV>(shape), std::byte{0xFF});
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    k.resize(static_cast<std::size_t>(20 * stride()));
    v.resize(k.size());
    for (float& x : k) x = normal(random);
    for (float& x : v) x = normal(random);
    for (std::uint32_t i = 0; i < 20; ++i) {
      const auto tokens = static_cast<std::uint32_t>(block_size);
      slots.push_back(i % 3 == 0 ? kNoSlot : KVSlot{BlockId{i * 7 % (4 * tokens) / tokens}, i * 7 % tokens});
      positions.push_back(i);
    }
  }
  std::int64_t stride() const { return shape.num_kv_heads * shape.head_dim + 5; }
  std::span<std::byte> pool_memory() { return memory.span(); }
  PagedKVView<KV> view() { return KVPool<KV>(shape, pool_memory()).view(1); }
  AppendKvArgs<KV> args(std::int64_t begin, std::int64_t end) {
    AppendKvArgs<KV> args;
    args.view = view();
    args.k = k.data() + begin * stride();
    args.v = v.data() + begin * stride();
    args.k_stride = args.v_stride = stride();
    args.slots = slots.data() + begin;
    args.positions = positions.data() + begin;
    args.num_tokens = end - begin;
    return args;
  }
  KVPoolShape shape;
  AlignedBytes memory;
  std::vector<float> k, v;
  std::vector<KVSlot> slots;
  std::vector<std::int64_t> positions;
};

bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

template <KVFormat Format, class Fn>
void for_each_layout(Fn&& fn) {
  fn.template operator()<PagedKV<Format, KeyTransposedLayout>>();
  fn.template operator()<PagedKV<Format, TokenMajorLayout>>();
  fn.template operator()<PagedKV<Format, HeadMajorLayout>>();
}

/// What a reader gets back must be within half a code's step of what was written.
template <KVStorage KV>
void check_read_back(Case<KV>& problem, double tolerance) {
  const std::int64_t head_dim = problem.shape.head_dim;
  std::vector<double> row(static_cast<std::size_t>(head_dim));
  for (std::int64_t i = 0; i < 20; ++i) {
    const KVSlot slot = problem.slots[static_cast<std::size_t>(i)];
    if (slot == kNoSlot) continue;
    for (std::int64_t head = 0; head < 3; ++head) {
      for (const bool key : {true, false}) {
        if (key) read_key(problem.view(), slot.block, head, slot.offset, row.data());
        if (!key) read_value(problem.view(), slot.block, head, slot.offset, row.data());
        double error = 0.0;
        for (std::int64_t d = 0; d < head_dim; ++d) {
          const float x = (key ? problem.k : problem.v)[static_cast<std::size_t>(i * problem.stride() + head * head_dim + d)];
          error += std::pow(row[static_cast<std::size_t>(d)] - static_cast<double>(x), 2);
        }
        CHECK(std::sqrt(error / static_cast<double>(head_dim)) <= tolerance);
      }
    }
  }
}

}  // namespace

TEST_CASE("append_kv.values_come_back_within_the_formats_precision", "[append_kv]") {
  const std::vector<double> tolerances{0.0, 1e-3, 8e-3, 6e-2, 2e-2, 0.15, 0.15};  // root mean square error of normal numbers
  std::size_t i = 0;
  for_each_type(KVFormats{}, [&]<class Format>() {
    const double tolerance = tolerances.at(i++);
    for_each_layout<Format>([&]<class KV>() {
      for (const std::int64_t head_dim : {64, 80}) {
        INFO(std::string(Format::kName) << " " << std::string(KV::Layout::kName) << ", head_dim " << head_dim);
        Case<KV> problem(head_dim, 16);
        Cpu cpu({.num_threads = 2});
        REQUIRE(append_kv(cpu, problem.args(0, 20)).ok());
        check_read_back(problem, tolerance);
      }
    });
  });
}

// Beside a bias of 100 small floats and integer codes would keep nothing of the key. The bias is not turned here.
TEST_CASE("append_kv.keys_of_8_bits_and_fewer_lose_their_bias", "[append_kv]") {
  const std::vector<float> bias(3 * 64, 100.0f);
  std::int64_t num_formats = 0;
  for_each_type(KVFormats{}, [&]<class Format>() {
    using KV = CpuKV<Format>;
    INFO(std::string(Format::kName));
    Case<KV> problem(64, 16);
    std::vector<float> biased = problem.k;
    for (float& x : biased) x += 100.0f;
    AppendKvArgs<KV> args = problem.args(0, 20);
    args.k = biased.data(), args.key_bias = {.bias = bias.data(), .num_pages = 1};
    for (const bool fast : {false, true}) {
      Cpu cpu({.num_threads = 2});
      REQUIRE((fast ? append_kv(cpu, args) : reference::append_kv(args)).ok());
      if (Format::Key::kBits > 8) {
        std::vector<double> key(64);
        read_key(problem.view(), problem.slots[1].block, 0, problem.slots[1].offset, key.data());
        CHECK(std::fabs(key[0] - 100.0) < 6.0);
      } else {
        check_read_back(problem, 0.15);
      }
    }
    num_formats += Format::Key::kBits > 8 ? 0 : 1;
  });
  CHECK(num_formats == 4);
}

TEST_CASE("append_kv.cpu_equals_the_reference_and_touches_only_its_slots", "[append_kv]") {
  for_each_type(KVFormats{}, [&]<class Format>() {
    for_each_layout<Format>([&]<class KV>() {
      INFO(std::string(Format::kName) << " " << std::string(KV::Layout::kName));
      Case<KV> fast(64, 16);
      Case<KV> slow(64, 16);
      Cpu cpu({.num_threads = 3});
      REQUIRE(append_kv(cpu, fast.args(0, 20)).ok());
      REQUIRE(reference::append_kv(slow.args(0, 20)).ok());
      std::int64_t poison_fast = 0;
      std::int64_t poison_slow = 0;
      std::int64_t different = 0;
      for (std::size_t b = 0; b < fast.pool_memory().size(); ++b) {
        poison_fast += fast.pool_memory()[b] == std::byte{0xFF} ? 1 : 0;
        poison_slow += slow.pool_memory()[b] == std::byte{0xFF} ? 1 : 0;
        different += fast.pool_memory()[b] == slow.pool_memory()[b] ? 0 : 1;
      }
      const auto total = static_cast<std::int64_t>(fast.pool_memory().size());
      // Rotations in float and in double may round a code the other way; plain formats may not differ at all.
      CHECK(different <= (KV::Key::kRotated ? (total - poison_slow) / 200 : 0));
      CHECK(std::abs(poison_fast - poison_slow) <= different);
      CHECK(poison_slow > total / 2);
    });
  });
}

// Hardware narrows floats where the reference does it bit by bit.
TEST_CASE("append_kv.numbers_that_round_overflow_or_vanish_have_the_references_bits", "[append_kv]") {
  const std::vector<float> special{0.0f, -0.0f, 1e6f, -65519.9f, 65520.0f, INFINITY, -INFINITY, 6.1e-5f, 5.9e-8f, 2.9e-8f, 2.98e-8f, 1e-30f,
                                   1.00048828125f, 1.00146484375f, 0x1.ffep-15f, NAN};
  for_each_type(KVFormats{}, [&]<class Format>() {
    if constexpr (Format::Key::kBits >= 16) {
      for_each_layout<Format>([&]<class KV>() {
        INFO(std::string(Format::kName) << " " << std::string(KV::Layout::kName));
        Case<KV> fast(72, 16);
        for (std::size_t i = 0; i < fast.k.size(); i += 3) fast.k[i] = fast.v[fast.v.size() - 1 - i] = special[i / 3 % special.size()];
        Case<KV> slow(72, 16);
        slow.k = fast.k;
        slow.v = fast.v;
        auto fast_args = fast.args(0, 20), slow_args = slow.args(0, 20);
        fast_args.view.key_scale = slow_args.view.key_scale = 0.75f;
        fast_args.view.value_scale = slow_args.view.value_scale = 3.0f;
        Cpu cpu({.num_threads = 1});
        REQUIRE(append_kv(cpu, fast_args).ok());
        REQUIRE(reference::append_kv(slow_args).ok());
        CHECK(same_bytes(fast.pool_memory(), slow.pool_memory()));
      });
    }
  });
}

TEST_CASE("append_kv.a_tokens_bytes_do_not_depend_on_its_batch", "[append_kv]") {
  for_each_type(KVFormats{}, [&]<class Format>() {
    using KV = CpuKV<Format>;
    INFO(std::string(Format::kName));
    Case<KV> together(80, 32);
    Case<KV> alone(80, 32);
    Cpu cpu({.num_threads = 2});
    REQUIRE(append_kv(cpu, together.args(0, 20)).ok());
    for (std::int64_t i = 19; i >= 0; --i) REQUIRE(append_kv(cpu, alone.args(i, i + 1)).ok());
    CHECK(same_bytes(together.pool_memory(), alone.pool_memory()));
    Case<KV> unchecked(80, 32);
    REQUIRE(validate_tables(unchecked.args(0, 20)).ok());
    REQUIRE(append_kv(cpu, unchecked.args(0, 20), kTablesChecked).ok());
    CHECK(same_bytes(together.pool_memory(), unchecked.pool_memory()));
  });
}

TEST_CASE("append_kv.bad_launches_are_refused_and_write_nothing", "[append_kv]") {
  using KV = CpuKV<Int8KV>;
  Case<KV> problem(64, 16);
  Cpu cpu({.num_threads = 1});
  const std::vector<std::byte> before(problem.pool_memory().begin(), problem.pool_memory().end());
  const auto refuse = [&](auto&& spoil, const std::string& message) {
    AppendKvArgs<KV> args = problem.args(0, 20);
    spoil(args);
    CHECK(append_kv(cpu, args).message() == message);
    CHECK(reference::append_kv(args).message() == message);
    CHECK(same_bytes(problem.pool_memory(), before));
  };
  refuse([](auto& args) { args.k = nullptr; }, "append_kv: k, v or slots is null");
  refuse([](auto& args) { args.k_stride = 191; }, "append_kv: k_stride is smaller than num_kv_heads * head_dim");
  refuse([](auto& args) { args.num_tokens = -1; }, "append_kv: num_tokens is negative");
  problem.slots[19] = {BlockId{4}, 0};
  refuse([](auto&) {}, "append_kv: a slot's page is outside the pool");
  CHECK(validate(problem.args(0, 20)).ok());  // slots are no numbers of the launch
  problem.slots[19] = {BlockId{3}, 16};
  refuse([](auto&) {}, "append_kv: a slot's offset is outside its page");
  problem.slots[19] = {BlockId{3}, 15};
  const std::vector<float> bias(192, 1.0f);
  const std::vector<float> rotation(64, 1.0f);
  problem.positions[19] = 32;
  refuse([&](auto& args) { args.key_bias = {bias.data(), rotation.data(), 1, 64, false}; },
         "append_kv: a position is outside the key bias' pages");
  refuse([&](auto& args) { args.key_bias = {bias.data(), rotation.data(), 1, 64, false}, args.positions = nullptr; },
         "append_kv: a key bias needs the tokens' positions");
  problem.positions[19] = 19;
  refuse([&](auto& args) { args.key_bias = {bias.data(), rotation.data(), 1, 66, false}; },
         "key bias: rotary_dim must be even and at most head_dim");
  refuse([&](auto& args) { args.key_bias = {bias.data(), rotation.data(), 1, 63, false}; },
         "key bias: rotary_dim must be even and at most head_dim");
  refuse([&](auto& args) { args.key_bias = {bias.data(), nullptr, 1, 64, false}; }, "key bias: page_rotation is null");
  refuse([](auto& args) { args.view.dims.num_kv_heads = 0; }, "KV view: num_kv_heads must be positive");
  for (const float value : kvpage_test::kNoScale) {
    INFO(value);
    refuse([=](auto& args) { args.view.key_scale = value; }, "KV view: key_scale must be finite and > 0");
    refuse([=](auto& args) { args.view.value_scale = value; }, "KV view: value_scale must be finite and > 0");
  }
}
