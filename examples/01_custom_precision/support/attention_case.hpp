/// \file One sequence of random keys and values in some KV format, and attention over it.
#pragma once

#include "01_custom_precision/support/packed_matrix.hpp"

#include <kvpage/kernels/append_kv/cpu.hpp>
#include <kvpage/kernels/paged_attention/cpu.hpp>
#include <kvpage/kernels/paged_attention/reference.hpp>
#include <kvpage/kv/kv_formats.hpp>
#include <kvpage/kv/kv_pool.hpp>

#include <array>
#include <vector>

namespace own {

/// `num_rows` queries at the end of a context of `kv_len` tokens; 6 query heads on 2 kv heads of 64 dims.
template <kvpage::KVFormat Format>
class AttentionCase {
 public:
  using KV = kvpage::CpuKV<Format>;
  static_assert(kvpage::paged_attention_slow_reason<KV>({2, 64, 32}).empty(), "the kernels read this format in place");

  AttentionCase(kvpage::Cpu& cpu, std::int64_t kv_len, std::int64_t num_rows)
      : cpu_(cpu), shape_{1, 2, 64, 32, kvpage::ceil_div(kv_len, std::int64_t{32})}, memory_(kvpage::pool_bytes<KV>(shape_)),
        pool_(shape_, memory_.span()), scratch_(kvpage::paged_attention_scratch_bytes<KV>(cpu, shape_.dims(), kNumQueryHeads)),
        kv_len_(kv_len), indptr_{0, shape_.num_blocks}, span_{0, num_rows, kv_len - num_rows}, q_(random_values(num_rows * kQueryRow, 3)) {
    for (std::int64_t b = 0; b < shape_.num_blocks; ++b) blocks_.push_back(kvpage::BlockId{static_cast<std::uint32_t>(b)});
    std::vector<kvpage::KVSlot> slots;
    for (std::int64_t t = 0; t < kv_len; ++t) {
      slots.push_back({blocks_[static_cast<std::size_t>(t / 32)], static_cast<std::uint32_t>(t % 32)});
    }
    const std::vector<float> k = random_values(kv_len * kKVRow, 4);
    const std::vector<float> v = random_values(kv_len * kKVRow, 5);
    require(kvpage::append_kv(cpu, kvpage::AppendKvArgs<KV>{.view = pool_.view(0), .k = k.data(), .v = v.data(), .k_stride = kKVRow,
                                                            .v_stride = kKVRow, .slots = slots.data(), .num_tokens = kv_len}));
  }

  /// out [num_rows, 6, 64]
  void run(std::vector<float>& out) { require(kvpage::paged_attention(cpu_, arguments(out))); }
  /// The same in double, from the keys and values as the pages hold them.
  void run_reference(std::vector<float>& out) { require(kvpage::reference::paged_attention(arguments(out))); }

  /// Multiply-adds of one run, scores and values.
  double macs() const {
    const double keys_per_row = static_cast<double>(kv_len_) - static_cast<double>(span_.q_count - 1) / 2.0;
    return 2.0 * keys_per_row * static_cast<double>(span_.q_count * kQueryRow);
  }

 private:
  static constexpr std::int64_t kNumQueryHeads = 6;
  static constexpr std::int64_t kQueryRow = 6 * 64;
  static constexpr std::int64_t kKVRow = 2 * 64;

  kvpage::PagedAttentionArgs<KV> arguments(std::vector<float>& out) {
    out.resize(q_.size());
    kvpage::PagedAttentionArgs<KV> args;
    args.q = q_.data();
    args.out = out.data();
    args.q_stride = args.out_stride = kQueryRow;
    args.num_tokens = span_.q_count;
    args.num_q_heads = kNumQueryHeads;
    args.seqs = &span_;
    args.view = pool_.view(0, {indptr_.data(), blocks_.data(), &kv_len_, 1});
    args.scale = 0.125f;
    args.scratch = scratch_.span();
    return args;
  }

  kvpage::Cpu& cpu_;
  kvpage::KVPoolShape shape_;
  kvpage::AlignedBytes memory_;
  kvpage::KVPool<KV> pool_;
  kvpage::AlignedBytes scratch_;
  std::int64_t kv_len_;
  std::array<std::int64_t, 2> indptr_;
  std::vector<kvpage::BlockId> blocks_;
  kvpage::QuerySpan span_;
  std::vector<float> q_;
};

}  // namespace own
