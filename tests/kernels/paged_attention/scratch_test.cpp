/// \file Scratch and allocations of a launch: the same at 64 and at 16,384 positions, for every kind of key.
#include "support/allocation_count.hpp"
#include "support/catch.hpp"

#include <kvpage/base/aligned_bytes.hpp>
#include <kvpage/kernels/paged_attention/cpu.hpp>
#include <kvpage/kv/kv_formats.hpp>
#include <kvpage/kv/kv_pool.hpp>

#include <algorithm>
#include <vector>

using namespace kvpage;

namespace {

/// A launch of `num_seqs` sequences on one page that every position shares: long without much memory.
template <class Format>
void require_fixed_scratch(Cpu& cpu, std::int64_t kv_len, std::int64_t num_seqs) {
  using KV = CpuKV<Format>;
  constexpr std::int64_t kGuard = 4096;
  const KVPoolShape shape{1, 1, 64, 32, 1};
  const std::int64_t scratch_bytes = paged_attention_scratch_bytes<KV>(cpu, shape.dims(), 3);
  const AlignedBytes memory(pool_bytes<KV>(shape), std::byte{0});
  const AlignedBytes scratch(scratch_bytes + kGuard, std::byte{0x5A});
  const KVPool<KV> pool(shape, memory.span());
  const std::vector<BlockId> ids(static_cast<std::size_t>(kv_len / 32 * num_seqs), BlockId{0});
  std::vector<std::int64_t> indptr{0};
  std::vector<QuerySpan> seqs;
  for (std::int64_t s = 0; s < num_seqs; ++s) {
    indptr.push_back((s + 1) * kv_len / 32);
    seqs.push_back({s, 1, kv_len - 1});
  }
  const std::vector<std::int64_t> kv_lens(static_cast<std::size_t>(num_seqs), kv_len);
  const std::vector<float> q(static_cast<std::size_t>(num_seqs * 192), 0.5f);
  std::vector<float> out(q.size());
  PagedAttentionArgs<KV> args;
  args.q = q.data(), args.q_stride = args.out_stride = 192;
  args.num_tokens = num_seqs, args.num_q_heads = 3, args.seqs = seqs.data();
  args.view = pool.view(0, {indptr.data(), ids.data(), kv_lens.data(), num_seqs});
  args.scale = 1.0f, args.out = out.data();
  args.scratch = scratch.span().first(static_cast<std::size_t>(scratch_bytes));
  const std::size_t before = kvpage_test::allocated_bytes();
  const Status status = paged_attention(cpu, args);
  const std::size_t allocated = kvpage_test::allocated_bytes() - before;
  REQUIRE(status.ok());
  CHECK(allocated == 0);
  const std::span<std::byte> guard = scratch.span().subspan(static_cast<std::size_t>(scratch_bytes));
  CHECK(std::all_of(guard.begin(), guard.end(), [](std::byte b) { return b == std::byte{0x5A}; }));
}

/// What one worker takes is what the comments at the fields of AttentionScratch say, each in whole units of 64 bytes.
template <class Format>
void require_said_sizes(std::int64_t head_dim) {
  const detail::AttentionLaunch launch = detail::make_launch<CpuKV<Format>>({2, head_dim, 32}, 6);
  const std::int64_t rows = launch.rows, dim = launch.padded_dim, groups = (dim + 31) / 32;
  const std::int64_t floats[] = {rows * dim, rows, 2 * rows * groups, rows * groups, rows * 64, rows, dim, 2 * groups * 64, 16 * rows,
                                 rows,       rows, rows,              rows * dim,    rows,      rows, rows * dim};
  // Codes of queries and weights, words of values, the page, visible keys.
  std::int64_t bytes = round_up(2 * rows * dim, 64) + round_up(2 * rows * 64, 64) + round_up(16 * dim * 4, 64) +
                       round_up(launch.stage_bytes, 64) + round_up(8 * rows, 64);
  for (const std::int64_t count : floats) bytes += round_up(4 * count, 64);
  detail::AttentionScratch scratch;
  detail::AttentionCarver carver(nullptr);
  carver.take(scratch, launch);
  CAPTURE(Format::kName, head_dim, rows, dim);
  CHECK(carver.used_bytes() == bytes);
}

}  // namespace

TEST_CASE("paged_attention.scratch.is_what_its_fields_say", "[paged_attention]") {
  for (const std::int64_t head_dim : {8, 64, 80, 128, 512}) {
    require_said_sizes<PlainKV<F32>>(head_dim);
    require_said_sizes<Int8KV>(head_dim);
    require_said_sizes<Int4K4KV>(head_dim);
  }
}

TEST_CASE("paged_attention.scratch.depends_on_neither_length_nor_batch_and_a_launch_allocates_nothing", "[paged_attention]") {
  for (const int num_threads : {1, 2}) {
    Cpu cpu({.num_threads = num_threads});
    for (const std::int64_t kv_len : {64, 16384}) {
      for (const std::int64_t num_seqs : {1, 33}) {
        CAPTURE(num_threads, kv_len, num_seqs);
        require_fixed_scratch<PlainKV<F16>>(cpu, kv_len, num_seqs);
        require_fixed_scratch<PlainKV<BF16>>(cpu, kv_len, num_seqs);
        require_fixed_scratch<Int8KV>(cpu, kv_len, num_seqs);
        require_fixed_scratch<Int4KV>(cpu, kv_len, num_seqs);
      }
    }
  }
}
