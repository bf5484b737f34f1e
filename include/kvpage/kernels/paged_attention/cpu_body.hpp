/// \file Paged attention of one tile over a range of splits: the loop over pairs of steps that scores, softmax and values hang on.
/// No include guard: cpu.hpp compiles it once per instruction set.
#ifndef KVPAGE_ISA_BODY
#include <kvpage/kernels/paged_attention/cpu.hpp>
#else

namespace detail {

/// bias_score [rows] = scaled query . key bias, turned to the middle of the step: once per row and step.
inline void score_bias(const AttentionLaunch& launch, const AttentionTile& tile, const AttentionScratch& scratch, std::int64_t page,
                       std::int64_t num_rows) {
  const KeyBias& key_bias = launch.key_bias;
  const std::int64_t num_pairs = key_bias.rotary_dim / 2;
  const float* bias = key_bias.bias + tile.kv_head * launch.head_dim;
  const float* cosines = key_bias.page_rotation + 2 * page * num_pairs;
  const float* sines = cosines + num_pairs;
  float* turned = scratch.turned_bias;
  for (std::int64_t d = 0; d < launch.padded_dim; ++d) turned[d] = d < launch.head_dim ? bias[d] : 0.0f;
  for (std::int64_t i = 0; i < num_pairs; ++i) {
    const std::int64_t x = key_bias.adjacent_pairs ? 2 * i : i;
    const std::int64_t y = key_bias.adjacent_pairs ? 2 * i + 1 : i + num_pairs;
    turned[x] = __builtin_fmaf(bias[x], cosines[i], -(bias[y] * sines[i]));
    turned[y] = __builtin_fmaf(bias[x], sines[i], bias[y] * cosines[i]);
  }
  for (std::int64_t r = 0; r < num_rows; ++r) {
    FloatLanes sum = zero();
    for (std::int64_t d = 0; d < launch.padded_dim; d += 16) {
      sum = fma(load(scratch.query_rows + r * launch.padded_dim + d), load(turned + d), sum);
    }
    scratch.bias_score[r] = reduce_add(sum) * launch.bias_scale;
  }
}

/// The positions of a pair of steps that some row of the tile may see: [begin, end) inside [pos, pos + 64).
struct PairRange {
  std::int64_t pos, begin, end;
};

/// Finds the codes of a pair. A half without visible positions borrows those of another half: its scores are masked.
inline AttentionPair locate_pair(const AttentionLaunch& launch, const AttentionTile& tile, const std::byte* staged,
                                 const PairRange& range) {
  AttentionPair pair;
  const KVLayerMap& map = launch.staged ? launch.stage_map : launch.map;
  for (std::int64_t half = 0; half < AttentionPair::kHalves; ++half) {
    std::int64_t position = range.pos + 16 * half;
    if (position + 16 <= range.begin) position = range.begin - range.begin % 16;
    if (position >= range.end) position = (range.end - 1) - (range.end - 1) % 16;
    const std::byte* head = staged;
    std::int64_t offset = position % kAttentionPairTokens;
    if (!launch.staged) {
      const std::int64_t block = position / launch.block_size;
      head = launch.base + static_cast<std::int64_t>(tile.block_ids[block].value) * launch.block_stride +
             tile.kv_head * map.key.head_stride;
      offset = position - block * launch.block_size;
    }
    pair.keys[half] = head + map.key.offset + offset * launch.key_unit;
    pair.values[half] = head + map.value.offset + offset * launch.value_stride;
    pair.key_params[half] = reinterpret_cast<const std::uint16_t*>(head + map.key_params.offset) + offset;
    pair.value_params[half] = reinterpret_cast<const std::uint16_t*>(head + map.value_params.offset) + offset;
  }
  return pair;
}

/// scratch.visible: what each row sees of the pair at `pos`.
inline void find_visible(const AttentionLaunch& launch, const AttentionTile& tile, const AttentionScratch& scratch, std::int64_t pos) {
  VisibleKeys* visible = scratch.visible;
  for (std::int64_t token = 0; token < tile.num_tokens; ++token) {
    const std::int64_t position = tile.first_pos + token;
    std::int64_t begin = launch.window == 0 ? 0 : position - launch.window + 1 - pos;
    std::int64_t end = (position + 1 < tile.kv_len ? position + 1 : tile.kv_len) - pos;
    begin = begin < 0 ? 0 : (begin > kAttentionPairTokens ? kAttentionPairTokens : begin);
    end = end > kAttentionPairTokens ? kAttentionPairTokens : (end < begin ? begin : end);
    for (std::int64_t g = 0; g < launch.group; ++g) *visible++ = {static_cast<std::int32_t>(begin), static_cast<std::int32_t>(end)};
  }
}

/// Whether every row of the tile sees every key of the step at `step_pos`.
inline bool sees_whole_step(const AttentionLaunch& launch, const AttentionTile& tile, std::int64_t step_pos) {
  const std::int64_t end = step_pos + kAttentionStepTokens;
  const std::int64_t last = tile.first_pos + tile.num_tokens - 1;
  return end <= tile.kv_len && end <= tile.first_pos + 1 && (launch.window == 0 || last - step_pos < launch.window);
}

/// The softmax of one step of a pair.
template <class Value>
inline void weigh_step(const AttentionLaunch& launch, const AttentionTile& tile, const AttentionScratch& scratch, const PairsAhead& pairs,
                       std::int64_t step_pos, int step) {
  const std::int64_t num_rows = tile.num_tokens * launch.group;
  const bool biased = launch.key_bias.bias != nullptr;
  if (biased) score_bias(launch, tile, scratch, step_pos / kAttentionStepTokens, num_rows);
  FloatLanes value_scales[2] = {zero(), zero()};
  if constexpr (kScaledVectors<Value>) {
    for (int half = 0; half < 2; ++half) value_scales[half] = load_half(pairs.now.value_params[2 * step + half]);
  }
  if (sees_whole_step(launch, tile, step_pos)) {
    softmax_tile<kScaledVectors<Value>, false>(launch, scratch, biased, value_scales, step, num_rows);
  } else {
    softmax_tile<kScaledVectors<Value>, true>(launch, scratch, biased, value_scales, step, num_rows);
  }
}

/// One pair of steps for all rows of a tile, into scratch.part.
template <class Key, class Value>
inline void attend_pair(const AttentionLaunch& launch, const AttentionTile& tile, const AttentionScratch& scratch, const PairsAhead& pairs,
                        std::int64_t pos) {
  const std::int64_t num_rows = tile.num_tokens * launch.group;
  const int first = pairs.first_half / 2;
  const int last = pairs.end_half / 2 - 1;
  const bool masked = !sees_whole_step(launch, tile, pos + first * kAttentionStepTokens) ||
                      !sees_whole_step(launch, tile, pos + last * kAttentionStepTokens);
  if (masked) find_visible(launch, tile, scratch, pos);
  score_tile<Key>(launch, pairs, scratch, num_rows);
  for (int step = first; step <= last; ++step) {
    weigh_step<Value>(launch, tile, scratch, pairs, pos + step * kAttentionStepTokens, step);
  }
  if constexpr (kScaledDims<Value>) {
    for (std::int64_t p = 0; p < Value::kScaling.num_params(launch.padded_dim); ++p) {
      for (int half = pairs.first_half; half < pairs.end_half; ++half) {
        const FloatLanes params = load_half(pairs.now.value_params[half] + p * launch.param_stride);
        store(scratch.value_params + p * kAttentionPairTokens + 16 * half, params);
      }
    }
  }
  if constexpr (kIntegerSums<Value>) {
    sum_tile(launch, pairs, scratch, num_rows);
  } else {
    accumulate_tile<Value>(launch, {&pairs, launch.value_stride, launch.padded_dim, scratch.value_params}, scratch, masked, num_rows);
  }
}

/// The pair at `pos` of a tile; empty when nothing of it is visible.
inline PairRange visible_pair(const AttentionLaunch& launch, const AttentionTile& tile, std::int64_t pos) {
  const std::int64_t last = tile.first_pos + tile.num_tokens;
  const std::int64_t window_begin = launch.window == 0 ? 0 : tile.first_pos - launch.window + 1;
  PairRange range{pos, pos, pos + kAttentionPairTokens};
  if (window_begin > range.begin) range.begin = window_begin;
  if (last < range.end) range.end = last;
  if (tile.kv_len < range.end) range.end = tile.kv_len;
  return range;
}

/// Moves on to the pair at `pos`, and looks two pairs ahead.
inline void advance(const AttentionLaunch& launch, const AttentionTile& tile, const AttentionScratch& scratch, const PairRange& range,
                    bool first, PairsAhead& pairs) {
  const auto locate = [&](std::int64_t pos, const AttentionPair& otherwise) {
    const PairRange ahead = visible_pair(launch, tile, pos);
    return ahead.begin < ahead.end ? locate_pair(launch, tile, scratch.page, ahead) : otherwise;
  };
  pairs.first_half = range.begin - range.pos < kAttentionStepTokens ? 0 : 2;
  pairs.end_half = range.end - range.pos <= kAttentionStepTokens ? 2 : 4;
  if (launch.staged) {
    launch.stage(launch.view, tile, range.begin, range.end, scratch.page);
    pairs.now = pairs.next = pairs.later = locate_pair(launch, tile, scratch.page, range);
    return;
  }
  pairs.now = first ? locate_pair(launch, tile, scratch.page, range) : pairs.next;
  pairs.next = first ? locate(range.pos + kAttentionPairTokens, pairs.now) : pairs.later;
  pairs.later = locate(range.pos + 2 * kAttentionPairTokens, pairs.next);
}

/// total [rows] += attention of the rows of `tile`, whose queries are prepared, over splits [split_begin, split_end), in order.
template <class Key, class Value>
inline void attend_prepared(const AttentionLaunch& launch, const AttentionTile& tile, const AttentionScratch& scratch,
                            const AttentionRows& total, std::int64_t split_begin, std::int64_t split_end) {
  const std::int64_t num_rows = tile.num_tokens * launch.group;
  if (launch.staged) __builtin_memset(scratch.page, 0, static_cast<std::size_t>(launch.stage_bytes));  // padding dims must be finite
  PairsAhead pairs;
  bool first = true;
  for (std::int64_t split = split_begin; split < split_end; ++split) {
    open_split(launch, scratch, num_rows);
    for (std::int64_t pos = split * kAttentionSplitTokens; pos < (split + 1) * kAttentionSplitTokens; pos += kAttentionPairTokens) {
      const PairRange range = visible_pair(launch, tile, pos);
      if (range.begin >= range.end) continue;
      advance(launch, tile, scratch, range, first, pairs);
      first = false;
      attend_pair<Key, Value>(launch, tile, scratch, pairs, pos);
    }
    close_split(scratch, num_rows);
    merge_rows(launch, total, scratch.part, num_rows);
  }
}

}  // namespace detail

/// Readies the queries of tiles for attend_splits.
template <class Key, Element Q>
void prepare_attention(const detail::AttentionLaunch& launch, const detail::AttentionTile* tiles, std::int64_t num_tiles,
                       const detail::AttentionScratch& scratch) {
  std::int64_t num_tokens = 0;
  for (std::int64_t i = 0; i < num_tiles; ++i) num_tokens += tiles[i].num_tokens;
  std::int64_t row = 0;
  for (std::int64_t i = 0; i < num_tiles; ++i) {
    detail::prepare_queries<Key, Q>(launch, tiles[i], scratch, row, num_tokens * launch.group);
    row += tiles[i].num_tokens * launch.group;
  }
}

/// total [rows] += the tiles' attention over positions of splits [split_begin, split_end), folded in order. Several tiles must
/// have equal pages there, of which all their rows see everything: then they are one tile.
/// Requires: prepare_attention of the same tiles and scratch.
template <class Key, class Value>
void attend_splits(const detail::AttentionLaunch& launch, const detail::AttentionTile* tiles, std::int64_t num_tiles,
                   const detail::AttentionScratch& scratch, const detail::AttentionRows& total, std::int64_t split_begin,
                   std::int64_t split_end) {
  if (num_tiles == 1) {
    detail::attend_prepared<Key, Value>(launch, tiles[0], scratch, total, split_begin, split_end);
    return;
  }
  detail::AttentionLaunch unmasked = launch;
  unmasked.window = 0;
  detail::AttentionTile joined = tiles[0];
  joined.num_tokens = 0;
  for (std::int64_t i = 0; i < num_tiles; ++i) joined.num_tokens += tiles[i].num_tokens;
  joined.kv_len = joined.first_pos = split_end * kAttentionSplitTokens;
  detail::attend_prepared<Key, Value>(unmasked, joined, scratch, total, split_begin, split_end);
}

/// total += part for the rows of a tile.
inline void merge_attention_rows(const detail::AttentionLaunch& launch, const detail::AttentionRows& total,
                                 const detail::AttentionRows& part, std::int64_t num_rows) {
  detail::merge_rows(launch, total, part, num_rows);
}

/// Normalises the rows of a tile and writes out and lse. Overwrites `total`.
template <class Value, Element Out>
void finish_attention(const detail::AttentionLaunch& launch, const detail::AttentionTile& tile, const detail::AttentionRows& total) {
  for (std::int64_t row = 0; row < tile.num_tokens * launch.group; ++row) {
    float* x = total.out + row * launch.padded_dim;
    const bool empty = total.sum[row] == 0.0f;
    const FloatLanes sum = broadcast(empty ? 1.0f : total.sum[row]);
    for (std::int64_t d = 0; d < launch.padded_dim; d += 16) {
      // An empty state's out is not even initialised.
      store(x + d, empty ? zero() : mul(div(load(x + d), sum), broadcast(launch.value_scale)));
    }
    if (Value::kRotated) detail::rotate_row<true>(x, launch.head_dim);
    const std::int64_t token = row / launch.group;
    const std::int64_t head = row % launch.group;
    Stored<Out>* out = static_cast<Stored<Out>*>(tile.out) + token * launch.out_stride + head * launch.head_dim;
    for (std::int64_t d = 0; d < launch.head_dim; d += 16) {
      const int count = launch.head_dim - d < 16 ? static_cast<int>(launch.head_dim - d) : 16;
      store_elements<ElementCodec<Out>>(out + d, load(x + d), count);
    }
    if (tile.lse != nullptr) {
      const double log_sum = empty ? 0.0 : __builtin_log(static_cast<double>(total.sum[row]));
      constexpr double kLn2 = 0.6931471805599453;
      const double max = empty ? -__builtin_inf() : static_cast<double>(total.max[row]) * kLn2;
      tile.lse[token * launch.lse_stride + head] = static_cast<float>(max + log_sum);
    }
  }
}
#endif
