/// \file One token through the library's own headers, without the engine: reserve pages, append keys and values, attend.
#include <kvpage/base/aligned_bytes.hpp>
#include <kvpage/base/philox.hpp>
#include <kvpage/cache/block_allocator.hpp>
#include <kvpage/cache/no_index.hpp>
#include <kvpage/exec/cpu.hpp>
#include <kvpage/kernels/append_kv/cpu.hpp>
#include <kvpage/kernels/paged_attention/cpu.hpp>
#include <kvpage/kv/kv_formats.hpp>
#include <kvpage/kv/kv_pool.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

using KV = kvpage::CpuKV<kvpage::DefaultKVFormat>;
using Allocator = kvpage::BlockAllocator<kvpage::NoIndex>;

constexpr kvpage::KVPoolShape kShape{.num_layers = 1, .num_kv_heads = 2, .head_dim = 64, .block_size = 16, .num_blocks = 8};
constexpr std::int64_t kNumTokens = 40;
constexpr std::int64_t kNumQueryHeads = 4;

std::vector<float> random_values(std::size_t count, std::uint64_t seed) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = kvpage::draw_bits({.seed = seed, .position = static_cast<std::uint32_t>(i)});
    values[i] = static_cast<float>(bits >> 40) * 0x1p-23f - 1.0f;  // in [-1, 1)
  }
  return values;
}

void require(const kvpage::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message());
  std::exit(1);
}

}  // namespace

int main() {
  const kvpage::BlockAllocatorConfig config{.num_blocks = kShape.num_blocks, .block_size = kShape.block_size, .max_seqs = 1};
  Allocator allocator(config);
  const kvpage::AlignedBytes pages(kvpage::pool_bytes<KV>(kShape));
  const kvpage::KVPool<KV> pool(kShape, pages.span());
  kvpage::Cpu cpu;

  // Reserve: all pages of 40 tokens, or none.
  auto transaction = allocator.begin().value();
  const kvpage::SeqId seq = transaction.create().value();
  transaction.grow(seq, kNumTokens).value();
  transaction.commit().value();
  const kvpage::BlockTable table = allocator.table(seq);

  // Append: every token's key and value go to their slot of the table.
  const std::int64_t kv_row = kShape.num_kv_heads * kShape.head_dim;
  const auto k = random_values(static_cast<std::size_t>(kNumTokens * kv_row), 1);
  const auto v = random_values(static_cast<std::size_t>(kNumTokens * kv_row), 2);
  std::vector<kvpage::KVSlot> slots;
  for (std::int64_t t = 0; t < kNumTokens; ++t) {
    slots.push_back({table.blocks[static_cast<std::size_t>(t / kShape.block_size)], static_cast<std::uint32_t>(t % kShape.block_size)});
  }
  require(kvpage::append_kv(cpu, kvpage::AppendKvArgs<KV>{.view = pool.view(0), .k = k.data(), .v = v.data(), .k_stride = kv_row,
                                                          .v_stride = kv_row, .slots = slots.data(), .num_tokens = kNumTokens}));

  // Attend: one query at the last position reads all pages.
  const std::vector<std::int64_t> indptr{0, static_cast<std::int64_t>(table.blocks.size())};
  const std::vector<std::int64_t> kv_lens{kNumTokens};
  const kvpage::QuerySpan row{.q_begin = 0, .q_count = 1, .first_pos = kNumTokens - 1};
  const auto q = random_values(kNumQueryHeads * kShape.head_dim, 3);
  std::vector<float> out(q.size());
  std::vector<float> lse(kNumQueryHeads);
  kvpage::PagedAttentionArgs<KV> attention;
  attention.q = q.data();
  attention.out = out.data();
  attention.q_stride = attention.out_stride = kNumQueryHeads * kShape.head_dim;
  attention.num_tokens = 1;
  attention.num_q_heads = kNumQueryHeads;
  attention.seqs = &row;
  attention.view = pool.view(0, {indptr.data(), table.blocks.data(), kv_lens.data(), 1});
  attention.scale = 1.0f / std::sqrt(static_cast<float>(kShape.head_dim));
  attention.lse = lse.data();
  const kvpage::AlignedBytes scratch(kvpage::paged_attention_scratch_bytes<KV>(cpu, kShape.dims(), kNumQueryHeads));
  attention.scratch = scratch.span();
  require(kvpage::paged_attention(cpu, attention));

  std::printf("attention over %lld tokens in %zu pages: out[0] = %f, lse[0] = %f\n", static_cast<long long>(kNumTokens),
              table.blocks.size(), static_cast<double>(out[0]), static_cast<double>(lse[0]));
  return 0;
}
