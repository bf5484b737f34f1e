/// \file Paged attention of one tile over a range of splits: the loop over steps that scores, softmax and values hang on.
/// No include guard: cpu.hpp compiles it once per instruction set.
#ifndef KVPAGE_ISA_BODY
#include <kvpage/kernels/paged_attention/cpu.hpp>
#else

namespace detail {

/// Codes of one rotated query row: x = scale * (128 * high + low), |high| <= 127, -64 <= low <= 63. 15 bits, so that the
/// query adds no error beside the keys' 8 bits. NaN and infinity end in the scale.
inline void code_query(const AttentionLaunch& launch, const AttentionScratch& scratch, std::int64_t row, const float* x) {
  constexpr float kLargestCode = 127.0f * 128.0f;
  IntLanes bits = zero_int();
  for (std::int64_t d = 0; d < launch.padded_dim; d += 16) bits = max_int(bits, bits_of(abs(load(x + d))));
  const float largest = __builtin_bit_cast(float, reduce_max_int(bits));
  const bool codable = largest >= 0x1p-100f && largest <= 0x1.fffffep127f;
  const FloatLanes inverse = broadcast(codable ? kLargestCode / largest : 0.0f);
  scratch.q_scale[row] = codable ? largest / kLargestCode : (largest < 0x1p-100f ? 0.0f : __builtin_nanf(""));
  std::int8_t* high = scratch.q_high + row * launch.padded_dim;
  std::int8_t* low = scratch.q_low + row * launch.padded_dim;
  const std::int64_t num_groups = (launch.padded_dim + 31) / 32;
  std::int32_t high_sum = 0;
  std::int32_t low_sum = 0;
  for (std::int64_t g = 0; g < num_groups; ++g) {
    std::int32_t group_high = 0;
    std::int32_t group_low = 0;
    for (std::int64_t d = 32 * g; d < 32 * g + 32 && d < launch.padded_dim; d += 16) {
      const IntLanes code = codable ? round_to_int(mul(load(x + d), inverse)) : zero_int();
      const IntLanes upper = shift_right_int<7>(add_int(code, broadcast_int(64)));
      const IntLanes lower = sub_int(code, shift_left_int<7>(upper));
      store_s8(high + d, upper);
      store_s8(low + d, lower);
      group_high += reduce_add_int(upper);
      group_low += reduce_add_int(lower);
    }
    scratch.q_group_sum[row * num_groups + g] = scratch.q_scale[row] * static_cast<float>(128 * group_high + group_low);
    high_sum += group_high;
    low_sum += group_low;
  }
  scratch.q_start[2 * row] = kCenteredStart * high_sum;
  scratch.q_start[2 * row + 1] = kCenteredStart * low_sum;
}

/// Scaled, padded queries of all rows; for integer dots also rotated and coded.
template <class Key>
inline void prepare_queries(const AttentionLaunch& launch, const AttentionTile& tile, const AttentionScratch& scratch) {
  for (std::int64_t row = 0; row < tile.num_tokens * launch.group; ++row) {
    const float* q = tile.q + row / launch.group * launch.q_stride + row % launch.group * launch.head_dim;
    float* scaled = scratch.scaled_q + row * launch.padded_dim;
    for (std::int64_t d = 0; d < launch.head_dim; ++d) scaled[d] = q[d] * launch.score_scale;
    for (std::int64_t d = launch.head_dim; d < launch.padded_dim; ++d) scaled[d] = 0.0f;
    if constexpr (kIntegerDots<Key>) {
      float* rotated = scratch.turned_bias;
      for (std::int64_t d = 0; d < launch.padded_dim; d += 16) store(rotated + d, load(scaled + d));
      rotate_row<false>(rotated, launch.head_dim);
      code_query(launch, scratch, row, rotated);
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

/// Finds the codes of positions [begin, end) of the step at `step_pos`. A half without visible positions borrows the
/// other half's codes: its scores are masked.
inline AttentionStep locate_step(const AttentionLaunch& launch, const AttentionTile& tile, const AttentionScratch& scratch,
                                 std::int64_t step_pos, std::int64_t begin, std::int64_t end) {
  AttentionStep step;
  if (launch.staged) launch.stage(launch.view, tile, begin, end, scratch.page);
  const KVLayerMap& map = launch.staged ? launch.stage_map : launch.map;
  for (std::int64_t half = 0; half < 2; ++half) {
    const std::int64_t position = step_pos + 16 * half;
    if (position + 16 <= begin || position >= end) continue;
    const std::byte* head = scratch.page;
    std::int64_t offset = 16 * half;
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
  for (int half = 0; half < 2; ++half) {
    if (step.keys[half] != nullptr) continue;
    step.keys[half] = step.keys[1 - half];
    step.values[half] = step.values[1 - half];
    step.key_params[half] = step.key_params[1 - half];
    step.value_params[half] = step.value_params[1 - half];
  }
  return step;
}

/// One step of 32 positions for all rows of a tile, into scratch.part. [begin, end): what any row may see.
template <class Key, class Value>
inline void attend_step(const AttentionLaunch& launch, const AttentionTile& tile, const AttentionScratch& scratch, std::int64_t step_pos,
                        std::int64_t begin, std::int64_t end) {
  const std::int64_t num_rows = tile.num_tokens * launch.group;
  const AttentionStep step = locate_step(launch, tile, scratch, step_pos, begin, end);
  score_tile<Key>(launch, step, scratch, num_rows);
  const bool biased = kIntegerDots<Key> && launch.key_bias.bias != nullptr;
  if (biased) score_bias(launch, tile, scratch, step_pos / kAttentionStepTokens, num_rows);
  FloatLanes value_scales[2] = {zero(), zero()};
  if constexpr (kScaledVectors<Value>) {
    for (int half = 0; half < 2; ++half) value_scales[half] = load_half(step.value_params[half]);
  }
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const VisibleKeys keys = visible_keys(launch, tile, step_pos, row);
    if (keys.begin == keys.end) continue;
    softmax_row<kScaledVectors<Value>>(launch, keys, biased ? scratch.bias_score[row] : 0.0f, value_scales, scratch.part, row,
                                       scratch.scores + row * kAttentionStepTokens);
  }
  if constexpr (Value::kBits == 4) {
    for (std::int64_t p = 0; p < 2 * ((launch.padded_dim + 31) / 32); ++p) {
      for (int half = 0; half < 2; ++half) {
        store(scratch.value_params + p * kAttentionStepTokens + 16 * half, load_half(step.value_params[half] + p * launch.param_stride));
      }
    }
  }
  accumulate_tile<Value>(launch, tile, {&step, launch.value_stride, launch.padded_dim, scratch.value_params}, step_pos, scratch, num_rows);
}

}  // namespace detail

/// total [rows] = the tile's attention over positions of splits [split_begin, split_end), folded in order.
template <class Key, class Value>
void attend_splits(const detail::AttentionLaunch& launch, const detail::AttentionTile& tile, const detail::AttentionScratch& scratch,
                   const detail::AttentionRows& total, std::int64_t split_begin, std::int64_t split_end) {
  const std::int64_t num_rows = tile.num_tokens * launch.group;
  const std::int64_t last_pos = tile.first_pos + tile.num_tokens;
  const std::int64_t visible_end = last_pos < tile.kv_len ? last_pos : tile.kv_len;
  const std::int64_t window_begin = launch.window == 0 ? 0 : tile.first_pos - launch.window + 1;
  const std::int64_t visible_begin = window_begin < 0 ? 0 : window_begin;
  detail::prepare_queries<Key>(launch, tile, scratch);
  detail::clear_rows(launch, total, num_rows);
  for (std::int64_t split = split_begin; split < split_end; ++split) {
    detail::clear_rows(launch, scratch.part, num_rows);
    for (std::int64_t pos = split * kAttentionSplitTokens; pos < (split + 1) * kAttentionSplitTokens; pos += kAttentionStepTokens) {
      const std::int64_t begin = pos > visible_begin ? pos : visible_begin;
      const std::int64_t end = pos + kAttentionStepTokens < visible_end ? pos + kAttentionStepTokens : visible_end;
      if (begin < end) detail::attend_step<Key, Value>(launch, tile, scratch, pos, begin, end);
    }
    detail::merge_rows(launch, total, scratch.part, num_rows);
  }
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
    for (std::int64_t d = 0; d < launch.padded_dim; d += 16) store(x + d, mul(div(load(x + d), sum), broadcast(launch.value_scale)));
    if (Value::kRotated) detail::rotate_row<true>(x, launch.head_dim);
    const std::int64_t token = row / launch.group;
    const std::int64_t head = row % launch.group;
    float* out = tile.out + token * launch.out_stride + head * launch.head_dim;
    for (std::int64_t d = 0; d < launch.head_dim; d += 16) {
      store_first(out + d, load(x + d), static_cast<int>(launch.head_dim - d));
    }
    if (tile.lse != nullptr) {
      const double log_sum = empty ? -__builtin_inf() : static_cast<double>(total.max[row]) + __builtin_log(static_cast<double>(total.sum[row]));
      tile.lse[token * launch.lse_stride + head] = static_cast<float>(log_sum);
    }
  }
}
#endif
