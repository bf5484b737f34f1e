/// \file A random attention problem of a given shape, and the time of one launch over it.
#pragma once

#include <kvpage/base/aligned_bytes.hpp>
#include <kvpage/kernels/append_kv/cpu.hpp>
#include <kvpage/kernels/paged_attention/cpu.hpp>
#include <kvpage/kv/kv_formats.hpp>
#include <kvpage/kv/kv_pool.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

namespace kvpage_bench {

using namespace kvpage;

/// What to measure. Layers stand side by side in every page, and a launch visits each layer once, as a model does.
struct AttentionShape {
  std::int64_t num_layers, num_q_heads, num_kv_heads, head_dim;
  std::int64_t num_seqs, kv_len, q_count;
  std::int64_t shared_len = 0;  ///< leading positions whose pages all sequences share
};

inline void require_ok(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s (%lld, limit %lld)\n", status.message(), static_cast<long long>(status.value()),
               static_cast<long long>(status.limit()));
  std::exit(1);
}

/// A filled cache with pages in random order, and queries.
template <KVStorage KV>
class AttentionCase {
 public:
  AttentionCase(Cpu& cpu, const AttentionShape& shape)
      : cpu_(cpu), shape_(shape), pool_shape_{shape.num_layers, shape.num_kv_heads, shape.head_dim, 32, 0},
        pages_per_seq_(ceil_div(shape.kv_len, 32)), memory_(reserve()), pool_(pool_shape_, memory_.span()),
        scratch_(paged_attention_scratch_bytes<KV>(cpu, pool_shape_.dims(), shape.num_q_heads)) {
    ids_.resize(static_cast<std::size_t>(pool_shape_.num_blocks));
    for (std::size_t i = 0; i < ids_.size(); ++i) ids_[i] = BlockId{static_cast<std::uint32_t>(i)};
    std::shuffle(ids_.begin(), ids_.end(), random_);
    for (std::int64_t s = 1; s < shape.num_seqs; ++s) {
      std::copy_n(ids_.begin(), shape.shared_len / 32, ids_.begin() + s * pages_per_seq_);
    }
    for (std::int64_t s = 0; s <= shape.num_seqs; ++s) indptr_.push_back(s * pages_per_seq_);
    kv_lens_.assign(static_cast<std::size_t>(shape.num_seqs), shape.kv_len);
    for (std::int64_t s = 0; s < shape.num_seqs; ++s) seqs_.push_back({s * shape.q_count, shape.q_count, shape.kv_len - shape.q_count});
    std::normal_distribution<float> normal;
    q_.resize(static_cast<std::size_t>(shape.num_seqs * shape.q_count * row()));
    for (float& x : q_) x = normal(random_);
    out_.resize(q_.size());
    fill();
  }

  /// Best seconds of one pass over all layers.
  double seconds(int rounds) {
    double best = 1e9;
    for (int i = 0; i < rounds; ++i) {
      const auto start = std::chrono::steady_clock::now();
      for (std::int64_t layer = 0; layer < shape_.num_layers; ++layer) launch(layer);
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return best;
  }
  double kv_bytes() const { return static_cast<double>(pool_bytes<KV>(pool_shape_)); }

 private:
  std::int64_t row() const { return shape_.num_q_heads * shape_.head_dim; }
  KVTables tables() const { return {indptr_.data(), ids_.data(), kv_lens_.data(), shape_.num_seqs}; }
  AlignedBytes reserve() {
    pool_shape_.num_blocks = pages_per_seq_ * shape_.num_seqs;
    return AlignedBytes(pool_bytes<KV>(pool_shape_));
  }

  void fill() {
    const std::int64_t kv_row = shape_.num_kv_heads * shape_.head_dim;
    std::vector<float> rows(static_cast<std::size_t>(32 * kv_row));
    std::normal_distribution<float> normal;
    for (float& x : rows) x = normal(random_);
    std::vector<KVSlot> slots(32);
    for (std::int64_t layer = 0; layer < shape_.num_layers; ++layer) {
      for (const BlockId id : ids_) {
        for (std::uint32_t t = 0; t < 32; ++t) slots[t] = {id, t};
        AppendKvArgs<KV> args{.view = pool_.view(layer), .k = rows.data(), .v = rows.data(), .k_stride = kv_row, .v_stride = kv_row,
                              .slots = slots.data(), .num_tokens = 32};
        require_ok(append_kv(cpu_, args));
      }
    }
  }

  void launch(std::int64_t layer) {
    PagedAttentionArgs<KV> args;
    args.q = q_.data();
    args.q_stride = args.out_stride = row();
    args.num_tokens = shape_.num_seqs * shape_.q_count;
    args.num_q_heads = shape_.num_q_heads;
    args.seqs = seqs_.data();
    args.view = pool_.view(layer, tables());
    args.scale = 0.125f;
    args.out = out_.data();
    args.scratch = scratch_.span();
    require_ok(paged_attention(cpu_, args));
  }

  Cpu& cpu_;
  AttentionShape shape_;
  KVPoolShape pool_shape_;
  std::int64_t pages_per_seq_;
  AlignedBytes memory_;
  KVPool<KV> pool_;
  AlignedBytes scratch_;
  std::mt19937 random_{1};
  std::vector<BlockId> ids_;
  std::vector<std::int64_t> indptr_, kv_lens_;
  std::vector<QuerySpan> seqs_;
  std::vector<float> q_, out_;
};

}  // namespace kvpage_bench
