/// \file A user's program over the library: it answers 0 when every part does what its documentation says.
#include "consumer.hpp"

#include <kvpage/base/aligned_bytes.hpp>
#include <kvpage/base/error.hpp>
#include <kvpage/base/version.hpp>
#include <kvpage/cache/block_allocator.hpp>
#include <kvpage/kernels/gemm/cpu.hpp>
#include <kvpage/kv/kv_formats.hpp>
#include <kvpage/kv/kv_pool.hpp>
#include <kvpage/precision/precisions.hpp>
#include <kvpage/quant/weight_formats.hpp>

#include <array>
#include <cstdio>
#include <string_view>
#include <vector>

namespace {

int failures = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::printf("not true: %s\n", what);
  ++failures;
}

void check_precisions() {
  int count = 0;
  kvpage::for_each_type(kvpage::Precisions{}, [&]<class P>() {
    ++count;
    expect(P::decode(P::encode(1.0f)) == 1.0f, "1 survives every precision");
  });
  expect(count >= 7, "seven precisions are shipped");
}

void check_errors() {
  try {
    kvpage::throw_config_error("block_size must be positive", -1, 1, "tokens");
  } catch (const kvpage::ConfigError& error) {
    expect(error.value() == -1 && std::string_view{error.unit()} == "tokens", "a ConfigError carries value and unit");
    return;
  }
  expect(false, "a bad configuration throws");
}

void check_allocator() {
  using Allocator = kvpage::BlockAllocator<kvpage::NoIndex>;
  const kvpage::BlockAllocatorConfig config{.num_blocks = 8, .block_size = 16, .max_seqs = 1};
  std::vector<std::byte> memory(Allocator::required_bytes(config));
  Allocator allocator{config, memory};
  auto plan = allocator.begin().value();
  const auto seq = plan.create().value();
  expect(plan.grow(seq, 40).has_value(), "40 tokens fit into 8 blocks of 16");
  expect(plan.commit().has_value(), "the transaction commits");
  expect(allocator.table(seq).blocks.size() == 3, "40 tokens take 3 blocks");
}

void check_pool() {
  using KV = kvpage::CpuKV<kvpage::DefaultKVFormat>;
  const kvpage::KVPoolShape shape{.num_layers = 2, .num_kv_heads = 1, .head_dim = 64, .block_size = 16, .num_blocks = 4};
  const kvpage::AlignedBytes memory(kvpage::pool_bytes<KV>(shape));
  const kvpage::KVPool<KV> pool{shape, memory.span()};
  expect(pool.view(1).key_codes(kvpage::BlockId{0}, 0) > pool.view(0).key_codes(kvpage::BlockId{0}, 0), "layers follow each other");
}

void check_gemm() {
  const std::array<float, 6> weight = {1, 2, 3, 4, 5, 6};  // [2, 3]
  const std::array<float, 3> x = {1, 10, 100};
  std::array<float, 2> out{};
  kvpage::Cpu cpu{{.num_threads = 1}};
  kvpage::GemmArgs args;
  args.weight = kvpage::weight_view<kvpage::F32Weight>(reinterpret_cast<const std::byte*>(weight.data()), 2, 3);
  args.x = x.data();
  args.x_stride = 3;
  args.num_rows = 1;
  args.out = out.data();
  args.out_stride = 2;
  expect(kvpage::gemm(cpu, args).ok(), "gemm runs");
  expect(out[0] == 321.0f && out[1] == 654.0f, "gemm multiplies");
}

}  // namespace

int main() {
  check_precisions();
  check_errors();
  check_allocator();
  check_pool();
  check_gemm();
  expect(precisions_seen_by_the_other_unit() == kvpage::Precisions::kSize, "two units see one library");
  std::printf("kvpage %d.%d.%d: %d failures\n", KVPAGE_VERSION_MAJOR, KVPAGE_VERSION_MINOR, KVPAGE_VERSION_PATCH, failures);
  return failures == 0 ? 0 : 1;
}
