/// \file Paged attention of one tile over a range of splits: the loop over steps that scores, softmax and values hang on.
/// No include guard: cpu.hpp compiles it once per instruction set.
#ifndef KVPAGE_ISA_BODY
#include <kvpage/kernels/paged_attention/cpu.hpp>
#else

namespace detail {

/// Codes of one rotated query row: x = scale * (128 * high + low), |high| <= 127, -64 <= low <= 63. 15 bits, so that the
/// query adds no error beside the keys' 8 bits. NaN and infinity end in the scale.
template <class Key>
inline void code_query(const AttentionLaunch& launch, const AttentionScratch& scratch, const TileCursor& place, std::int64_t row,
                       const float* x) {
  constexpr float kLargestCode = 127.0f * 128.0f;
  IntLanes bits = zero_int();
  for (std::int64_t d = 0; d < launch.padded_dim; d += 16) bits = max_int(bits, bits_of(abs(load(x + d))));
  const float largest = __builtin_bit_cast(float, reduce_max_int(bits));
  const bool codable = largest >= 0x1p-100f && largest <= 0x1.fffffep127f;
  const FloatLanes inverse = broadcast(codable ? kLargestCode / largest : 0.0f);
  scratch.q_scale[row] = codable ? largest / kLargestCode : (largest < 0x1p-100f ? 0.0f : __builtin_nanf(""));
  const std::int64_t word_stride = 8 * place.rows;
  std::int8_t* codes = scratch.q_codes + 2 * place.begin * launch.padded_dim + 8 * (row - place.begin);
  // 8-bit dots take 128 from every code already.
  constexpr std::int32_t kStart = (Key::kBits == 8 ? kCenteredStart + 128 : 0) - Key::kScaling.offset;
  const std::int64_t num_groups = Key::kScaling.num_groups(launch.padded_dim);
  const std::int64_t group_dims = Key::kScaling.group_dims == 0 ? launch.padded_dim : Key::kScaling.group_dims;
  for (std::int64_t g = 0; g < num_groups; ++g) {
    IntLanes high_sums = zero_int();
    IntLanes low_sums = zero_int();
    for (std::int64_t d = g * group_dims; d < (g + 1) * group_dims && d < launch.padded_dim; d += 16) {
      const IntLanes code = codable ? round_to_int(mul(load(x + d), inverse)) : zero_int();
      const IntLanes upper = shift_right_int<7>(add_int(code, broadcast_int(64)));
      const IntLanes lower = sub_int(code, shift_left_int<7>(upper));
      std::int8_t parts[2][16];
      store_s8(parts[0], upper);
      store_s8(parts[1], lower);
      for (int word = 0; word < 4; ++word, codes += word_stride) {
        __builtin_memcpy(codes, parts[0] + 4 * word, 4);
        __builtin_memcpy(codes + 4, parts[1] + 4 * word, 4);
      }
      high_sums = add_int(high_sums, upper);
      low_sums = add_int(low_sums, lower);
    }
    const std::int32_t high_sum = reduce_add_int(high_sums);
    const std::int32_t low_sum = reduce_add_int(low_sums);
    const std::int64_t at = row * num_groups + g;
    scratch.q_group_sum[at] = scratch.q_scale[row] * static_cast<float>(128 * high_sum + low_sum);
    scratch.q_start[2 * at] = kStart * high_sum;
    scratch.q_start[2 * at + 1] = kStart * low_sum;
  }
}

/// Scaled, padded queries of a tile's rows, to rows from `first_row` on, of `num_rows` in all; for integer dots also coded, and
/// rotated as the keys are.
template <class Key>
inline void prepare_queries(const AttentionLaunch& launch, const AttentionTile& tile, const AttentionScratch& scratch,
                            std::int64_t first_row, std::int64_t num_rows) {
  TileCursor place{num_rows, kScoreRows<Key>};
  for (std::int64_t i = 0; i < tile.num_tokens * launch.group; ++i) {
    const float* q = tile.q + i / launch.group * launch.q_stride + i % launch.group * launch.head_dim;
    const std::int64_t row = first_row + i;
    place.move_to(row);
    // Integer dots need whole rows here, to be rotated and coded; float scores broadcast the rows of a register tile dim by dim.
    const std::int64_t stride = kIntegerDots<Key> ? 1 : place.rows;
    float* scaled = scratch.scaled_q + (kIntegerDots<Key> ? row * launch.padded_dim : place.begin * launch.padded_dim + row - place.begin);
    for (std::int64_t d = 0; d < launch.head_dim; ++d) scaled[d * stride] = q[d] * launch.score_scale;
    for (std::int64_t d = launch.head_dim; d < launch.padded_dim; ++d) scaled[d * stride] = 0.0f;
    if constexpr (kIntegerDots<Key>) {
      float* rotated = scratch.turned_bias;
      for (std::int64_t d = 0; d < launch.padded_dim; d += 16) store(rotated + d, load(scaled + d));
      if (Key::kRotated) rotate_row<false>(rotated, launch.head_dim);
      code_query<Key>(launch, scratch, place, row, rotated);
    }
  }
}

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
      sum = fma(load(scratch.scaled_q + r * launch.padded_dim + d), load(turned + d), sum);
    }
    scratch.bias_score[r] = reduce_add(sum);
  }
}

/// The positions of one step that some row of the tile may see: [begin, end) inside [pos, pos + 32).
struct StepRange {
  std::int64_t pos, begin, end;
};

/// Finds the codes of a step. A half without visible positions borrows the other half's codes: its scores are masked.
inline AttentionStep locate_step(const AttentionLaunch& launch, const AttentionTile& tile, const std::byte* staged,
                                 const StepRange& range) {
  AttentionStep step;
  const KVLayerMap& map = launch.staged ? launch.stage_map : launch.map;
  for (std::int64_t half = 0; half < 2; ++half) {
    std::int64_t position = range.pos + 16 * half;
    if (position + 16 <= range.begin) position += 16;
    if (position >= range.end) position -= 16;
    const std::byte* head = staged;
    std::int64_t offset = position % kAttentionStepTokens;
    if (!launch.staged) {
      head = launch.base + static_cast<std::int64_t>(tile.block_ids[position / launch.block_size].value) * launch.block_stride +
             tile.kv_head * map.key.head_stride;
      offset = position % launch.block_size;
    }
    step.keys[half] = head + map.key.offset + offset * launch.key_unit;
    step.values[half] = head + map.value.offset + offset * launch.value_stride;
    step.key_params[half] = reinterpret_cast<const std::uint16_t*>(head + map.key_params.offset) + offset;
    step.value_params[half] = reinterpret_cast<const std::uint16_t*>(head + map.value_params.offset) + offset;
  }
  return step;
}

/// scratch.visible: what each row sees of the step at `step_pos`.
inline void find_visible(const AttentionLaunch& launch, const AttentionTile& tile, const AttentionScratch& scratch, std::int64_t step_pos) {
  VisibleKeys* visible = scratch.visible;
  for (std::int64_t token = 0; token < tile.num_tokens; ++token) {
    const std::int64_t position = tile.first_pos + token;
    std::int64_t begin = launch.window == 0 ? 0 : position - launch.window + 1 - step_pos;
    std::int64_t end = (position + 1 < tile.kv_len ? position + 1 : tile.kv_len) - step_pos;
    begin = begin < 0 ? 0 : (begin > kAttentionStepTokens ? kAttentionStepTokens : begin);
    end = end > kAttentionStepTokens ? kAttentionStepTokens : (end < begin ? begin : end);
    for (std::int64_t g = 0; g < launch.group; ++g) *visible++ = {static_cast<std::int32_t>(begin), static_cast<std::int32_t>(end)};
  }
}

/// Whether every row of the tile sees every key of the step at `step_pos`.
inline bool sees_whole_step(const AttentionLaunch& launch, const AttentionTile& tile, std::int64_t step_pos) {
  const std::int64_t end = step_pos + kAttentionStepTokens;
  const std::int64_t last = tile.first_pos + tile.num_tokens - 1;
  return end <= tile.kv_len && end <= tile.first_pos + 1 && (launch.window == 0 || last - step_pos < launch.window);
}

/// One step of 32 positions for all rows of a tile, into scratch.part.
template <class Key, class Value>
inline void attend_step(const AttentionLaunch& launch, const AttentionTile& tile, const AttentionScratch& scratch, const StepWindow& steps,
                        std::int64_t step_pos) {
  const std::int64_t num_rows = tile.num_tokens * launch.group;
  const bool masked = !sees_whole_step(launch, tile, step_pos);
  if (masked) find_visible(launch, tile, scratch, step_pos);
  score_tile<Key>(launch, steps, scratch, num_rows);
  const bool biased = launch.key_bias.bias != nullptr;
  if (biased) score_bias(launch, tile, scratch, step_pos / kAttentionStepTokens, num_rows);
  FloatLanes value_scales[2] = {zero(), zero()};
  if constexpr (kScaledVectors<Value>) {
    for (int half = 0; half < 2; ++half) value_scales[half] = load_half(steps.now.value_params[half]);
  }
  softmax_tile<kScaledVectors<Value>>(launch, scratch, masked, biased, value_scales, num_rows);
  if constexpr (kScaledDims<Value>) {
    for (std::int64_t p = 0; p < Value::kScaling.num_params(launch.padded_dim); ++p) {
      for (int half = 0; half < 2; ++half) {
        const FloatLanes params = load_half(steps.now.value_params[half] + p * launch.param_stride);
        store(scratch.value_params + p * kAttentionStepTokens + 16 * half, params);
      }
    }
  }
  accumulate_tile<Value>(launch, {&steps, launch.value_stride, launch.padded_dim, scratch.value_params}, scratch, masked, num_rows);
}

/// The step at `pos` of a tile; empty when nothing of it is visible.
inline StepRange visible_step(const AttentionLaunch& launch, const AttentionTile& tile, std::int64_t pos) {
  const std::int64_t last = tile.first_pos + tile.num_tokens;
  const std::int64_t window_begin = launch.window == 0 ? 0 : tile.first_pos - launch.window + 1;
  StepRange range{pos, pos, pos + kAttentionStepTokens};
  if (window_begin > range.begin) range.begin = window_begin;
  if (last < range.end) range.end = last;
  if (tile.kv_len < range.end) range.end = tile.kv_len;
  return range;
}

/// Moves on to the step at `pos`, and looks two steps ahead.
inline void advance(const AttentionLaunch& launch, const AttentionTile& tile, const AttentionScratch& scratch, const StepRange& range,
                    bool first, StepWindow& steps) {
  const auto locate = [&](std::int64_t pos, const AttentionStep& otherwise) {
    const StepRange ahead = visible_step(launch, tile, pos);
    return ahead.begin < ahead.end ? locate_step(launch, tile, scratch.page, ahead) : otherwise;
  };
  if (launch.staged) {
    launch.stage(launch.view, tile, range.begin, range.end, scratch.page);
    steps.now = steps.next = steps.later = locate_step(launch, tile, scratch.page, range);
    return;
  }
  steps.now = first ? locate_step(launch, tile, scratch.page, range) : steps.next;
  steps.next = first ? locate(range.pos + kAttentionStepTokens, steps.now) : steps.later;
  steps.later = locate(range.pos + 2 * kAttentionStepTokens, steps.next);
}

/// total [rows] += attention of the rows of `tile`, whose queries are prepared, over splits [split_begin, split_end), in order.
template <class Key, class Value>
inline void attend_prepared(const AttentionLaunch& launch, const AttentionTile& tile, const AttentionScratch& scratch,
                            const AttentionRows& total, std::int64_t split_begin, std::int64_t split_end) {
  const std::int64_t num_rows = tile.num_tokens * launch.group;
  if (launch.staged) __builtin_memset(scratch.page, 0, static_cast<std::size_t>(launch.stage_bytes));  // padding dims must be finite
  StepWindow steps;
  bool first = true;
  for (std::int64_t split = split_begin; split < split_end; ++split) {
    open_split(launch, scratch, num_rows);
    for (std::int64_t pos = split * kAttentionSplitTokens; pos < (split + 1) * kAttentionSplitTokens; pos += kAttentionStepTokens) {
      const StepRange range = visible_step(launch, tile, pos);
      if (range.begin >= range.end) continue;
      advance(launch, tile, scratch, range, first, steps);
      first = false;
      attend_step<Key, Value>(launch, tile, scratch, steps, pos);
    }
    close_split(scratch, num_rows);
    merge_rows(launch, total, scratch.part, num_rows);
  }
}

}  // namespace detail

/// total [rows] += the tiles' attention over positions of splits [split_begin, split_end), folded in order. Several tiles must
/// have equal pages there, of which all their rows see everything: then they are one tile.
template <class Key, class Value>
void attend_splits(const detail::AttentionLaunch& launch, const detail::AttentionTile* tiles, std::int64_t num_tiles,
                   const detail::AttentionScratch& scratch, const detail::AttentionRows& total, std::int64_t split_begin,
                   std::int64_t split_end) {
  std::int64_t num_tokens = 0;
  for (std::int64_t i = 0; i < num_tiles; ++i) num_tokens += tiles[i].num_tokens;
  std::int64_t row = 0;
  for (std::int64_t i = 0; i < num_tiles; ++i) {
    detail::prepare_queries<Key>(launch, tiles[i], scratch, row, num_tokens * launch.group);
    row += tiles[i].num_tokens * launch.group;
  }
  if (num_tiles == 1) {
    detail::attend_prepared<Key, Value>(launch, tiles[0], scratch, total, split_begin, split_end);
    return;
  }
  detail::AttentionLaunch unmasked = launch;
  unmasked.window = 0;
  detail::AttentionTile joined = tiles[0];
  joined.num_tokens = num_tokens;
  joined.kv_len = joined.first_pos = split_end * kAttentionSplitTokens;
  detail::attend_prepared<Key, Value>(unmasked, joined, scratch, total, split_begin, split_end);
}

/// total += part for the rows of a tile.
inline void merge_attention_rows(const detail::AttentionLaunch& launch, const detail::AttentionRows& total,
                                 const detail::AttentionRows& part, std::int64_t num_rows) {
  detail::merge_rows(launch, total, part, num_rows);
}

/// Normalises the rows of a tile and writes out and lse. Overwrites `total`.
template <class Value>
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
    float* out = tile.out + token * launch.out_stride + head * launch.head_dim;
    for (std::int64_t d = 0; d < launch.head_dim; d += 16) {
      store_first(out + d, load(x + d), static_cast<int>(launch.head_dim - d));
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
