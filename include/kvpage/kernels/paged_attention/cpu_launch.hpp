/// \file From PagedAttentionArgs to the plain data of the CPU bodies: padding, tile size, strides, units of work.
#pragma once

#include <kvpage/exec/cpu.hpp>
#include <kvpage/kernels/paged_attention/cpu_groups.hpp>
#include <kvpage/kernels/paged_attention/cpu_stage.hpp>

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

inline constexpr std::int64_t kMostTileRows = 48;

/// Rows per tile: enough to use what is read of a page many times, few enough to stay in the first caches.
constexpr std::int64_t tile_tokens(std::int64_t padded_dim, std::int64_t group) noexcept {
  const std::int64_t most_rows = padded_dim <= 128 ? kMostTileRows : kMostTileRows / 2;
  return std::max<std::int64_t>(1, most_rows / group);
}

/// Strides of the bytes that the kernel reads: a page of the pool, or the staged copy of a pair of steps.
template <KVStorage KV>
void set_strides(AttentionLaunch& launch) noexcept {
  using Key = KernelKey<typename KV::Key>;
  using Value = KernelValue<typename KV::Value>;
  const std::int64_t tokens = launch.staged ? kAttentionPairTokens : launch.block_size;
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
  launch.keeps_query_rows = takes_out_key_bias<KV> && !kIntegerDots<KernelKey<typename KV::Key>>;
  launch.staged = !reads_in_place<KV>(dims);
  launch.stage_map = stage_map<KernelKey<typename KV::Key>, KernelValue<typename KV::Value>>(launch.padded_dim);
  launch.stage_bytes = launch.staged ? launch.stage_map.layer_bytes : 0;
  set_strides<KV>(launch);
  return launch;
}

template <KVStorage KV, Element Q, Element Out>
AttentionLaunch make_launch(const PagedAttentionArgs<KV, Q, Out>& args) noexcept {
  AttentionLaunch launch = make_launch<KV>(args.view.dims, args.num_q_heads);
  constexpr double kLog2E = 1.4426950408889634;
  using Key = typename KV::Key;
  using Value = typename KV::Value;
  const double key_scale = kReadsKeys<Key> ? static_cast<double>(args.view.key_scale * kLoadedUnit<Key>) : 1.0;
  launch.base = args.view.base;
  launch.block_stride = args.view.block_stride;
  launch.q_stride = args.q_stride;
  launch.out_stride = args.out_stride;
  launch.lse_stride = args.num_q_heads;
  launch.score_scale = static_cast<float>(static_cast<double>(args.scale) * key_scale * kLog2E);
  launch.bias_scale = static_cast<float>(1.0 / key_scale);
  launch.value_scale = kReadsValues<Value> ? args.view.value_scale * kLoadedUnit<Value> : 1.0f;
  launch.softcap = static_cast<float>(static_cast<double>(args.softcap) * kLog2E);
  launch.window = args.window;
  if (takes_out_key_bias<KV>) launch.key_bias = args.key_bias;
  launch.stage = &stage_pair<KV>;
  launch.view = &args.view;
  return launch;
}

/// Work on one kv head: some tokens of one sequence, or all tokens of a group's members.
struct AttentionItem {
  const PlannedSeq* members = nullptr;  // [num_members]
  std::int64_t num_members = 0;
  std::int64_t shared_splits = 0;  ///< leading splits that all members take as one tile
  std::int64_t token_begin = 0;    ///< first token of each member
  std::int64_t kv_head = 0;
};

/// The items of a launch in order: sequence or group, then tokens, then kv head.
template <KVStorage KV, Element Q, Element Out>
class AttentionItems {
 public:
  AttentionItems(const PagedAttentionArgs<KV, Q, Out>& args, const AttentionLaunch& launch, const PlannedSeq* order) noexcept
      : args_(&args), order_(order), tokens_(launch.rows / launch.group), group_(launch.group) {}

  /// Fills PlannedSeq::first_item of `order`, the one of the constructor. Returns the number of items.
  std::int64_t number(PlannedSeq* order) const noexcept {
    std::int64_t count = 0;
    for (std::int64_t p = 0; p < args_->view.tables.num_seqs;) {
      const std::int64_t end = p + order[p].num_members;
      order[p].first_item = count;
      count += items_of(p);
      while (++p < end) order[p].first_item = count;
    }
    return count;
  }

  /// Rows of the largest item.
  std::int64_t most_rows() const noexcept {
    std::int64_t most = 0;
    for (std::int64_t p = 0; p < args_->view.tables.num_seqs; p += order_[p].num_members) {
      std::int64_t tokens = 0;
      for (std::int64_t m = 0; m < order_[p].num_members; ++m) tokens += args_->seqs[order_[p + m].seq].q_count;
      most = std::max(most, std::min(tokens, tokens_));
    }
    return most * group_;
  }

  /// Item number `index`. Cost: O(1) for one of the same sequence or group as the last one, else O(log num_seqs).
  AttentionItem at(std::int64_t index) noexcept {
    if (index < order_[place_].first_item || index >= order_[place_].first_item + items_of(place_)) place_ = place_of(index);
    const PlannedSeq& planned = order_[place_];
    const std::int64_t num_kv_heads = args_->view.dims.num_kv_heads;
    const std::int64_t i = index - planned.first_item;
    const std::int64_t tiles = items_of(place_) / num_kv_heads;
    // Later tokens see more keys: the largest items come first.
    return {&planned, planned.num_members, planned.shared_splits, (tiles - 1 - i / num_kv_heads) * tokens_, i % num_kv_heads};
  }

  /// The rows of one member.
  AttentionTile tile(const AttentionItem& item, std::int64_t member) const noexcept {
    const std::int64_t s = item.members[member].seq;
    const QuerySpan& seq = args_->seqs[s];
    const KVTables& tables = args_->view.tables;
    AttentionTile tile;
    tile.block_ids = tables.block_ids + tables.indptr[s];
    tile.kv_len = tables.kv_lens[s];
    tile.first_pos = seq.first_pos + item.token_begin;
    tile.num_tokens = std::min(tokens_, seq.q_count - item.token_begin);
    tile.kv_head = item.kv_head;
    const std::int64_t row = seq.q_begin + item.token_begin;
    const std::int64_t head = tile.kv_head * group_;
    tile.q = args_->q + row * args_->q_stride + head * args_->view.dims.head_dim;
    tile.out = args_->out + row * args_->out_stride + head * args_->view.dims.head_dim;
    tile.lse = args_->lse == nullptr ? nullptr : args_->lse + row * args_->num_q_heads + head;
    return tile;
  }

 private:
  std::int64_t place_of(std::int64_t index) const noexcept {
    // The last entry that does not begin behind it: those before with the same number have no items.
    const PlannedSeq* next = std::upper_bound(order_, order_ + args_->view.tables.num_seqs, index,
                                              [](std::int64_t i, const PlannedSeq& planned) { return i < planned.first_item; });
    return next - order_ - 1;
  }
  std::int64_t items_of(std::int64_t place) const noexcept {
    return ceil_div(args_->seqs[order_[place].seq].q_count, tokens_) * args_->view.dims.num_kv_heads;
  }

  const PagedAttentionArgs<KV, Q, Out>* args_;
  const PlannedSeq* order_;
  std::int64_t tokens_;
  std::int64_t group_;
  std::int64_t place_ = 0;
};

/// The tiles of members [begin, end) of an item, one below the other.
struct MemberTiles {
  template <class Items>
  MemberTiles(const Items& items, const AttentionItem& item, std::int64_t begin, std::int64_t end) noexcept
      : count(end - begin) {
    for (std::int64_t m = 0; m < count; ++m) {
      tiles[m] = items.tile(item, begin + m);
      num_tokens += tiles[m].num_tokens;
    }
  }
  AttentionTile tiles[kMostTileRows];
  std::int64_t count = 0;
  std::int64_t num_tokens = 0;
};

struct SplitRange {
  std::int64_t begin = 0, end = 0;
};
/// The splits that hold a key some row of the tile may see, without the leading `shared_splits`.
inline SplitRange own_splits(const AttentionLaunch& launch, const AttentionTile& tile, std::int64_t shared_splits) noexcept {
  const std::int64_t end = std::min(tile.kv_len, tile.first_pos + tile.num_tokens);
  const std::int64_t begin = launch.window == 0 ? 0 : std::max<std::int64_t>(0, tile.first_pos - launch.window + 1);
  if (begin >= end) return {};
  return {std::max(shared_splits, begin / kAttentionSplitTokens), ceil_div(end, kAttentionSplitTokens)};
}

/// The functions of one instruction set.
struct AttentionFunctions {
  void (*prepare)(const AttentionLaunch&, const AttentionTile*, std::int64_t, const AttentionScratch&);
  void (*attend)(const AttentionLaunch&, const AttentionTile*, std::int64_t, const AttentionScratch&, const AttentionRows&, std::int64_t,
                 std::int64_t);
  void (*merge)(const AttentionLaunch&, const AttentionRows&, const AttentionRows&, std::int64_t);
  void (*finish)(const AttentionLaunch&, const AttentionTile&, const AttentionRows&);
};

/// One split of an item's members or of one of them, when there are too few items to keep the workers busy.
struct AttentionUnit {
  AttentionItem item;
  std::int64_t member_begin = 0, member_end = 0;
  std::int64_t first_row = 0;  ///< of those members in the item
  SplitRange splits;           ///< at most one
  bool begins_item = false, ends_item = false;
  AttentionRows result;

  /// Whether the rows are those of `other`, and so are the queries.
  bool same_rows(const AttentionUnit& other) const noexcept {
    return item.members == other.item.members && item.kv_head == other.item.kv_head && item.token_begin == other.item.token_begin &&
           member_begin == other.member_begin && member_end == other.member_end;
  }
};

}  // namespace detail

KVPAGE_END_NAMESPACE
