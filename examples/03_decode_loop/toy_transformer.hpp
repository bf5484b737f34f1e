/// \file ToyTransformer: one forward pass over a BatchPlan on the reference kernels; its weights are random numbers.
#pragma once

#include <kvpage/base/aligned_bytes.hpp>
#include <kvpage/base/philox.hpp>
#include <kvpage/kernels/activation/reference.hpp>
#include <kvpage/kernels/append_kv/reference.hpp>
#include <kvpage/kernels/copy_blocks/reference.hpp>
#include <kvpage/kernels/embedding/reference.hpp>
#include <kvpage/kernels/gemm/reference.hpp>
#include <kvpage/kernels/paged_attention/reference.hpp>
#include <kvpage/kernels/rms_norm/reference.hpp>
#include <kvpage/kernels/rope/frequencies.hpp>
#include <kvpage/kernels/rope/reference.hpp>
#include <kvpage/kv/kv_formats.hpp>
#include <kvpage/kv/kv_pool.hpp>
#include <kvpage/quant/weight_formats.hpp>
#include <kvpage/sched/batch_plan.hpp>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace my_engine {

inline void require(const kvpage::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

/// A matrix [rows, cols] of random floats, format 0 of GGUF. Any other format is another number and other bytes.
struct Matrix {
  std::vector<float> values;
  kvpage::WeightView view;

  Matrix(std::int64_t rows, std::int64_t cols, std::uint64_t seed) : values(static_cast<std::size_t>(rows * cols)) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint64_t bits = kvpage::draw_bits({.seed = seed, .position = static_cast<std::uint32_t>(i)});
      values[i] = (static_cast<float>(bits >> 40) * 0x1p-23f - 1.0f) * 2.0f / std::sqrt(static_cast<float>(cols));
    }
    view = kvpage::weight_view(*kvpage::find_weight_format(0), reinterpret_cast<const std::byte*>(values.data()), rows, cols);
  }
};

/// Activations [num_rows, width].
struct Rows {
  std::int64_t num_rows, width;
  std::vector<float> values = std::vector<float>(static_cast<std::size_t>(num_rows * width));
  float* data() { return values.data(); }
};

class ToyTransformer {
 public:
  static constexpr std::int64_t kVocab = 64, kBlockSize = 16;
  explicit ToyTransformer(std::int64_t num_blocks)
      : pages_(kvpage::pool_bytes<KV>(shape(num_blocks))), pool_(shape(num_blocks), pages_.span()), norm_(kHidden, 1.0f),
        inv_freq_(kHeadDim / 2) {
    kvpage::rope_frequencies({}, kHeadDim, inv_freq_);
    for (std::uint64_t layer = 0; layer < kLayers; ++layer) layers_.emplace_back(100 * (layer + 1));
  }

  /// Runs the plan: keys and values of its rows go into their pages. Returns the logits of plan.logit_rows [., kVocab].
  Rows forward(const kvpage::BatchPlan& plan) {
    require(kvpage::reference::copy_blocks<KV>({.pool = &pool_, .copies = plan.copies}));
    Rows x{plan.num_tokens(), kHidden};
    require(kvpage::reference::embedding({.table = embedding_.view, .tokens = plan.tokens.data(), .num_tokens = plan.num_tokens(),
                                          .out = x.data(), .out_stride = kHidden}));
    for (std::int64_t layer = 0; layer < kLayers; ++layer) {
      attend(plan, layer, x);
      feed_forward(layers_[static_cast<std::size_t>(layer)], x);
    }
    Rows last{std::ssize(plan.logit_rows), kHidden}, logits{last.num_rows, kVocab};
    float* next = last.data();
    for (const std::int64_t row : plan.logit_rows) next = std::copy_n(x.data() + row * kHidden, kHidden, next);
    multiply(embedding_, norm(last), logits);
    return logits;
  }

 private:
  using KV = kvpage::CpuKV<kvpage::DefaultKVFormat>;
  static constexpr std::int64_t kLayers = 2, kHidden = 32, kHeadDim = 8, kHeads = 4, kKVHeads = 2, kFeedForward = 64;
  static constexpr float kScale = 0.35355339f;  // 1 / sqrt(kHeadDim)

  struct Layer {
    Matrix q, k, v, out, gate, up, down;
    explicit Layer(std::uint64_t seed)
        : q(kHeads * kHeadDim, kHidden, seed), k(kKVHeads * kHeadDim, kHidden, seed + 1), v(kKVHeads * kHeadDim, kHidden, seed + 2),
          out(kHidden, kHeads * kHeadDim, seed + 3), gate(kFeedForward, kHidden, seed + 4), up(kFeedForward, kHidden, seed + 5),
          down(kHidden, kFeedForward, seed + 6) {}
  };

  static kvpage::KVPoolShape shape(std::int64_t num_blocks) {
    return {.num_layers = kLayers, .num_kv_heads = kKVHeads, .head_dim = kHeadDim, .block_size = kBlockSize, .num_blocks = num_blocks};
  }

  /// out = [out +] matrix * x
  static void multiply(const Matrix& matrix, const Rows& x, Rows& out, bool accumulate = false) {
    require(kvpage::reference::gemm({.weight = matrix.view, .x = x.values.data(), .x_stride = x.width, .num_rows = x.num_rows,
                                     .out = out.data(), .out_stride = out.width, .accumulate = accumulate}));
  }

  Rows norm(const Rows& x) const {
    Rows out = x;
    require(kvpage::reference::rms_norm({.x = x.values.data(), .x_stride = kHidden, .weight = norm_.data(), .out = out.data(),
                                         .out_stride = kHidden, .num_rows = x.num_rows, .dim = kHidden}));
    return out;
  }

  void rotate(const kvpage::BatchPlan& plan, Rows& heads) const {
    require(kvpage::reference::rope({.x = heads.data(), .token_stride = heads.width, .num_tokens = heads.num_rows,
                                     .num_heads = heads.width / kHeadDim, .head_dim = kHeadDim, .rotary_dim = kHeadDim,
                                     .positions = plan.positions.data(), .inv_freq = inv_freq_.data()}));
  }

  /// x += out(attention(q, k, v))
  void attend(const kvpage::BatchPlan& plan, std::int64_t layer, Rows& x) {
    const Layer& w = layers_[static_cast<std::size_t>(layer)];
    const kvpage::PlannedGroup& pages = plan.groups[0];  // one group: all layers have the same block tables
    Rows normed = norm(x), q{x.num_rows, kHeads * kHeadDim}, k{x.num_rows, kKVHeads * kHeadDim}, v = k, mixed = q;
    multiply(w.q, normed, q);
    multiply(w.k, normed, k);
    multiply(w.v, normed, v);
    rotate(plan, q);
    rotate(plan, k);
    require(kvpage::reference::append_kv(kvpage::AppendKvArgs<KV>{
        .view = pool_.view(layer), .k = k.data(), .v = v.data(), .k_stride = k.width, .v_stride = v.width,
        .slots = pages.write_slots.data(), .num_tokens = x.num_rows}));
    const kvpage::KVTables tables{pages.indptr.data(), pages.block_ids.data(), plan.kv_lens.data(), plan.num_seqs()};
    require(kvpage::reference::paged_attention(kvpage::PagedAttentionArgs<KV>{
        .q = q.data(), .q_stride = q.width, .num_tokens = x.num_rows, .num_q_heads = kHeads, .seqs = plan.sequences.data(),
        .view = pool_.view(layer, tables), .scale = kScale, .out = mixed.data(), .out_stride = mixed.width}));
    multiply(w.out, mixed, x, true);
  }

  /// x += down(silu(gate(x)) * up(x))
  void feed_forward(const Layer& w, Rows& x) const {
    Rows gate{x.num_rows, kFeedForward}, up = gate;
    multiply(w.gate, norm(x), gate);
    multiply(w.up, norm(x), up);
    require(kvpage::reference::glu({.gate = gate.data(), .gate_stride = gate.width, .up = up.data(), .up_stride = up.width,
                                    .out = gate.data(), .out_stride = gate.width, .num_rows = x.num_rows, .dim = kFeedForward}));
    multiply(w.down, gate, x, true);
  }

  kvpage::AlignedBytes pages_;
  kvpage::KVPool<KV> pool_;
  Matrix embedding_{kVocab, kHidden, 3};  // and the output matrix
  std::vector<Layer> layers_;
  std::vector<float> norm_, inv_freq_;  // of every layer; all norms are ones
};

}  // namespace my_engine
