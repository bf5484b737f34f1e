/// \file Runs an attention problem on one storage type: poisoned pool, shuffled pages, appends and launches in chunks.
#pragma once

#include "attention_problem.hpp"

#include "support/catch.hpp"

#include <kvpage/base/aligned_bytes.hpp>
#include <kvpage/kernels/append_kv/cpu.hpp>
#include <kvpage/kernels/paged_attention/cpu.hpp>
#include <kvpage/kernels/paged_attention/reference.hpp>
#include <kvpage/kv/kv_pool.hpp>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <utility>

namespace kvpage_test {

using namespace kvpage;

/// Fills memory with NaN as a float of any width and as a half, so also as every scale.
inline constexpr std::byte kPoison{0xFF};

template <KVStorage KV>
class AttentionRun {
 public:
  AttentionRun(const AttentionProblem& problem, const RunOptions& options)
      : problem_(problem), options_(options), cpu_({.num_threads = options.num_threads, .isa = options.isa}), shape_(pool_shape()),
        memory_(pool_bytes<KV>(shape_), kPoison), pool_(shape_, memory_.span()), appended_(problem.seqs.size(), 0) {
    fill_tables();
    fill_bias();
    result_.out.assign(problem.q.size(), std::numeric_limits<float>::quiet_NaN());
    result_.lse.assign(static_cast<std::size_t>(problem.num_tokens() * problem.num_q_heads), std::numeric_limits<float>::quiet_NaN());
  }

  AttentionResult run() {
    std::int64_t most = 1;
    for (const SeqSpec& seq : problem_.seqs) most = std::max(most, seq.q_count);
    const std::int64_t chunk = options_.chunk == 0 ? most : options_.chunk;
    for (std::int64_t begin = 0; begin < most; begin += chunk) launch(begin, begin + chunk);
    return result_;
  }

 private:
  /// Two layers, of which the second is used, and three pages that stay free.
  KVPoolShape pool_shape() const {
    KVPoolShape shape{2, problem_.num_kv_heads, problem_.head_dim, options_.block_size, 3};
    for (const SeqSpec& seq : problem_.seqs) shape.num_blocks += ceil_div(seq.kv_len, shape.block_size);
    return shape;
  }

  void fill_tables() {
    std::vector<std::uint32_t> ids(static_cast<std::size_t>(shape_.num_blocks));
    std::iota(ids.begin(), ids.end(), 0u);
    std::mt19937 random(options_.permutation);
    std::shuffle(ids.begin(), ids.end(), random);
    indptr_.push_back(0);
    for (const SeqSpec& seq : problem_.seqs) indptr_.push_back(indptr_.back() + ceil_div(seq.kv_len, shape_.block_size));
    for (std::int64_t i = 0; i < indptr_.back(); ++i) block_ids_.push_back(BlockId{ids[static_cast<std::size_t>(i)]});
    for (std::size_t s = 0; s < problem_.seqs.size() && options_.share_pages; ++s) {
      const SeqSpec& seq = problem_.seqs[s];
      if (seq.prefix_of < 0) continue;
      const auto from = block_ids_.begin() + indptr_[static_cast<std::size_t>(seq.prefix_of)];
      std::copy_n(from, seq.prefix_tokens / shape_.block_size, block_ids_.begin() + indptr_[s]);
    }
  }

  void fill_bias() {
    if (problem_.key_bias.empty()) return;
    const std::int64_t num_pages = 1 + std::accumulate(problem_.seqs.begin(), problem_.seqs.end(), std::int64_t{0},
                                                       [](std::int64_t n, const SeqSpec& seq) { return std::max(n, seq.kv_len / 32); });
    rotation_.resize(static_cast<std::size_t>(num_pages * problem_.head_dim));
    fill_page_rotation(problem_.inv_freq.data(), problem_.head_dim, num_pages, rotation_.data());
    key_bias_ = {problem_.key_bias.data(), rotation_.data(), num_pages, problem_.head_dim, problem_.adjacent_pairs};
  }

  /// Writes positions [appended, kv_len) of a sequence.
  void append(std::size_t s, std::int64_t kv_len) {
    const std::int64_t begin = appended_[s];
    std::vector<KVSlot> slots;
    std::vector<std::int64_t> positions;
    for (std::int64_t p = begin; p < kv_len; ++p) {
      const BlockId block = block_ids_[static_cast<std::size_t>(indptr_[s] + p / shape_.block_size)];
      slots.push_back({block, static_cast<std::uint32_t>(p % shape_.block_size)});
      positions.push_back(p);
    }
    AppendKvArgs<KV> args;
    args.view = pool_.view(1);
    args.view.key_scale = options_.key_scale;
    args.k = problem_.kv[s].k.data() + begin * problem_.kv_row();
    args.v = problem_.kv[s].v.data() + begin * problem_.kv_row();
    args.k_stride = args.v_stride = problem_.kv_row();
    args.slots = slots.data();
    args.num_tokens = static_cast<std::int64_t>(slots.size());
    args.positions = positions.data();
    args.key_bias = key_bias_;
    const Status status = append_kv(cpu_, args);
    REQUIRE(status.ok());
    appended_[s] = std::max(begin, kv_len);
  }

  void free_pages_behind(std::size_t s, std::int64_t position) {
    for (std::int64_t i = 0; (i + 1) * shape_.block_size <= position - problem_.window + 1; ++i) {
      BlockId& id = block_ids_[static_cast<std::size_t>(indptr_[s] + i)];
      if (id == kNoBlock) continue;
      std::memset(pool_.page(id).data(), 0xFF, pool_.page(id).size());
      id = kNoBlock;
    }
  }

  /// Rows [begin, end) of every sequence.
  void launch(std::int64_t begin, std::int64_t end) {
    std::vector<QuerySpan> seqs;
    std::vector<std::int64_t> kv_lens;
    std::int64_t row = 0;
    for (std::size_t s = 0; s < problem_.seqs.size(); ++s) {
      const SeqSpec& seq = problem_.seqs[s];
      const std::int64_t first = std::min(begin, seq.q_count);
      const std::int64_t last = std::min(end, seq.q_count);
      const std::int64_t kv_len = last == seq.q_count ? seq.kv_len : std::clamp<std::int64_t>(seq.first_pos + last, 0, seq.kv_len);
      append(s, kv_len);
      if (options_.free_behind_window && last > first) free_pages_behind(s, seq.first_pos + first);
      seqs.push_back({row + first, last - first, seq.first_pos + first});
      kv_lens.push_back(kv_len);
      row += seq.q_count;
    }
    PagedAttentionArgs<KV> args = arguments(seqs, kv_lens);
    const std::int64_t scratch_bytes = paged_attention_scratch_bytes<KV>(cpu_, shape_.dims(), problem_.num_q_heads);
    const AlignedBytes scratch(scratch_bytes - options_.scratch_missing, kPoison);
    args.scratch = scratch.span();
    const Status status = launch(args);
    INFO(status.message() << " " << status.value() << " " << status.limit());
    REQUIRE(status.ok());
  }

  Status launch(const PagedAttentionArgs<KV>& args) {
    const bool checked = options_.entry != Entry::kWhole;
    if (checked) REQUIRE(validate_tables(args).ok());
    if (options_.reference) return checked ? reference::paged_attention(args, kTablesChecked) : reference::paged_attention(args);
    if (options_.entry == Entry::kPlanned) return launch_planned(args);
    return checked ? paged_attention(cpu_, args, kTablesChecked) : paged_attention(cpu_, args);
  }

  /// The plan is made from another layer's arguments, and is a copy where it is used.
  Status launch_planned(const PagedAttentionArgs<KV>& args) {
    float nothing = 0.0f;
    PagedAttentionArgs<KV> other = args;
    other.view = pool_.view(0, args.view.tables);
    other.q = &nothing, other.out = &nothing, other.lse = nullptr, other.scratch = {};
    other.scale = 7.0f, other.softcap = 0.0f, other.key_bias = {}, other.cascade_tokens = nullptr;
    std::vector<std::uint64_t> plan(static_cast<std::size_t>(paged_attention_plan_bytes(args.view.tables.num_seqs) / 8));
    if (const Status status = plan_paged_attention(other, std::as_writable_bytes(std::span(plan)), kTablesChecked); !status.ok()) {
      return status;
    }
    const std::vector<std::uint64_t> uploaded = std::exchange(plan, {});
    return paged_attention(cpu_, args, std::as_bytes(std::span(uploaded)));
  }

  PagedAttentionArgs<KV> arguments(const std::vector<QuerySpan>& seqs, const std::vector<std::int64_t>& kv_lens) {
    PagedAttentionArgs<KV> args;
    args.q = problem_.q.data();
    args.q_stride = args.out_stride = problem_.num_q_heads * problem_.head_dim;
    args.num_tokens = problem_.num_tokens();
    args.num_q_heads = problem_.num_q_heads;
    args.seqs = seqs.data();
    args.view = pool_.view(1, {indptr_.data(), block_ids_.data(), kv_lens.data(), static_cast<std::int64_t>(seqs.size())});
    args.view.key_scale = options_.key_scale;
    args.scale = problem_.scale;
    args.window = problem_.window;
    args.softcap = problem_.softcap;
    args.key_bias = key_bias_;
    args.out = result_.out.data();
    args.out_stride = args.q_stride;
    args.lse = result_.lse.data();
    args.cascade_tokens = options_.cascade_tokens;
    return args;
  }

  const AttentionProblem& problem_;
  RunOptions options_;
  Cpu cpu_;
  KVPoolShape shape_;
  AlignedBytes memory_;
  KVPool<KV> pool_;
  std::vector<std::int64_t> appended_, indptr_;
  std::vector<BlockId> block_ids_;
  std::vector<float> rotation_;
  KeyBias key_bias_{};
  AttentionResult result_;
};

}  // namespace kvpage_test
