/// \file From PagedAttentionArgs to the plain data of the CPU bodies: padding, tile size, strides, units of work.
#pragma once

#include <kvpage/exec/cpu.hpp>
#include <kvpage/kernels/paged_attention/stage.hpp>

#include <algorithm>

KVPAGE_BEGIN_NAMESPACE

namespace detail {

/// True when the kernel reads pages of KV in place.
template <KVStorage KV>
constexpr bool reads_in_place(const KVDims& dims) noexcept {
  constexpr bool kKnown = std::is_same_v<typename KV::Layout, KeyTransposedLayout> && kReadsKeys<typename KV::Key> &&
                          kReadsValues<typename KV::Value>;
  return kKnown && dims.block_size % 16 == 0 && dims.head_dim == attention_padded_dim<KV>(dims.head_dim);
}

/// Rows per tile: enough to use what is read of a page many times, few enough to stay in the first caches.
constexpr std::int64_t tile_tokens(std::int64_t padded_dim, std::int64_t group) noexcept {
  const std::int64_t most_rows = padded_dim <= 128 ? 48 : 24;
  return std::max<std::int64_t>(1, most_rows / group);
}

/// Strides of the bytes that the kernel reads: a page of the pool, or the staged copy of a step.
template <KVStorage KV>
void set_strides(AttentionLaunch& launch) noexcept {
  using Key = KernelKey<typename KV::Key>;
  using Value = KernelValue<typename KV::Value>;
  const std::int64_t tokens = launch.staged ? kAttentionStepTokens : launch.block_size;
  launch.key_unit = Key::kBits == 4 ? 4 : Key::kDotDims * Key::kBits / 8;
  launch.key_stride = tokens * launch.key_unit;
  launch.value_stride = launch.padded_dim * Value::kBits / 8;
  launch.param_stride = tokens;
}

/// What all tiles of a launch share, but the pointers of this launch.
template <KVStorage KV>
AttentionLaunch make_launch(const KVDims& dims, std::int64_t num_q_heads) noexcept {
  AttentionLaunch launch;
  launch.map = KV::layer_map(dims);
  launch.block_size = dims.block_size;
  launch.head_dim = dims.head_dim;
  launch.padded_dim = attention_padded_dim<KV>(dims.head_dim);
  launch.group = num_q_heads / dims.num_kv_heads;
  launch.rows = tile_tokens(launch.padded_dim, launch.group) * launch.group;
  launch.staged = !reads_in_place<KV>(dims);
  launch.stage_map = stage_map<KernelKey<typename KV::Key>, KernelValue<typename KV::Value>>(launch.padded_dim);
  launch.stage_bytes = launch.staged ? launch.stage_map.layer_bytes : 0;
  set_strides<KV>(launch);
  return launch;
}

template <KVStorage KV>
AttentionLaunch make_launch(const PagedAttentionArgs<KV>& args) noexcept {
  AttentionLaunch launch = make_launch<KV>(args.view.dims, args.num_q_heads);
  constexpr bool kScalesLater = kReadsKeys<typename KV::Key>;
  launch.base = args.view.base;
  launch.block_stride = args.view.block_stride;
  launch.q_stride = args.q_stride;
  launch.out_stride = args.out_stride;
  launch.lse_stride = args.num_q_heads;
  launch.score_scale = kScalesLater ? args.scale * args.view.key_scale : args.scale;
  launch.value_scale = kReadsValues<typename KV::Value> ? args.view.value_scale : 1.0f;
  launch.softcap = args.softcap;
  launch.window = args.window;
  if (takes_out_key_bias<KV>) launch.key_bias = args.key_bias;
  launch.stage = &stage_step<KV>;
  launch.view = &args.view;
  return launch;
}

/// Walks the tiles of a launch in order: sequence, then tokens, then kv head.
template <KVStorage KV>
class AttentionTiles {
 public:
  AttentionTiles(const PagedAttentionArgs<KV>& args, const AttentionLaunch& launch) noexcept
      : args_(&args), tokens_(launch.rows / launch.group), group_(launch.group) {}

  std::int64_t count() const noexcept {
    std::int64_t count = 0;
    for (std::int64_t s = 0; s < args_->view.tables.num_seqs; ++s) count += tiles_of(s);
    return count;
  }

  /// Tile number `index`. Cost: O(1) for the next one of the same cursor, else a walk over the sequences.
  AttentionTile at(std::int64_t index) noexcept {
    if (index < first_) seq_ = 0, first_ = 0;
    while (index >= first_ + tiles_of(seq_)) first_ += tiles_of(seq_++);
    const std::int64_t num_kv_heads = args_->view.dims.num_kv_heads;
    const std::int64_t begin = (index - first_) / num_kv_heads * tokens_;
    const QuerySpan& seq = args_->seqs[seq_];
    const KVTables& tables = args_->view.tables;
    AttentionTile tile;
    tile.block_ids = tables.block_ids + tables.indptr[seq_];
    tile.kv_len = tables.kv_lens[seq_];
    tile.first_pos = seq.first_pos + begin;
    tile.num_tokens = std::min(tokens_, seq.q_count - begin);
    tile.kv_head = (index - first_) % num_kv_heads;
    const std::int64_t row = seq.q_begin + begin;
    const std::int64_t head = tile.kv_head * group_;
    tile.q = args_->q + row * args_->q_stride + head * args_->view.dims.head_dim;
    tile.out = args_->out + row * args_->out_stride + head * args_->view.dims.head_dim;
    tile.lse = args_->lse == nullptr ? nullptr : args_->lse + row * args_->num_q_heads + head;
    return tile;
  }

 private:
  std::int64_t tiles_of(std::int64_t s) const noexcept {
    return ceil_div(args_->seqs[s].q_count, tokens_) * args_->view.dims.num_kv_heads;
  }

  const PagedAttentionArgs<KV>* args_;
  std::int64_t tokens_;
  std::int64_t group_;
  std::int64_t seq_ = 0;
  std::int64_t first_ = 0;  ///< index of the first tile of seq_
};

/// The splits that hold a key some row of the tile may see.
struct SplitRange {
  std::int64_t begin = 0, end = 0;
};
inline SplitRange visible_splits(const AttentionLaunch& launch, const AttentionTile& tile) noexcept {
  const std::int64_t end = std::min(tile.kv_len, tile.first_pos + tile.num_tokens);
  const std::int64_t begin = launch.window == 0 ? 0 : std::max<std::int64_t>(0, tile.first_pos - launch.window + 1);
  if (begin >= end) return {};
  return {begin / kAttentionSplitTokens, ceil_div(end, kAttentionSplitTokens)};
}

/// The functions of one instruction set.
struct AttentionFunctions {
  void (*attend)(const AttentionLaunch&, const AttentionTile&, const AttentionScratch&, const AttentionRows&, std::int64_t, std::int64_t);
  void (*merge)(const AttentionLaunch&, const AttentionRows&, const AttentionRows&, std::int64_t);
  void (*finish)(const AttentionLaunch&, const AttentionTile&, const AttentionRows&);
};

/// One split of one tile, when there are too few tiles to keep the workers busy.
struct AttentionUnit {
  AttentionTile tile;
  std::int64_t split = 0;
  SplitRange splits;
  AttentionRows result;
};

}  // namespace detail

KVPAGE_END_NAMESPACE
