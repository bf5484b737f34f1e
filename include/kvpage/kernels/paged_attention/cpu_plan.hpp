/// \file The plain data that the CPU kernel's launcher hands to the bodies compiled per instruction set.
#pragma once

#include <kvpage/kernels/paged_attention/args.hpp>
#include <kvpage/kv/hadamard.hpp>
#include <kvpage/kv/kv_quant.hpp>

#include <bit>
#include <cstring>

KVPAGE_BEGIN_NAMESPACE

/// The softmax advances by this many absolute positions, whatever the block size: the key bias' page.
inline constexpr std::int64_t kAttentionStepTokens = kKeyBiasPageTokens;
/// Two steps are scored, weighted and added together.
inline constexpr std::int64_t kAttentionPairTokens = 2 * kAttentionStepTokens;
/// Absolute positions per partial result; partial results are folded in ascending order. These numbers decide bits.
inline constexpr std::int64_t kAttentionSplitTokens = 256;

namespace detail {

/// What codes that the kernel cannot read become while a step is staged: floats.
struct DecodedCodec {
  using Code = float;
  static constexpr int kBits = 32;
  static constexpr int kDotDims = 1;
  static constexpr bool kRotated = false;
  static constexpr std::int64_t num_params(std::int64_t) noexcept { return 0; }
  static void encode(const float* x, std::int64_t head_dim, Code* codes, std::uint16_t*) noexcept {
    std::memcpy(codes, x, static_cast<std::size_t>(head_dim) * sizeof(float));
  }
  static constexpr float decode(Code code, const std::uint16_t*, std::int64_t) noexcept { return code; }
};

/// The codecs that the kernel reads in place, known by what their codes mean; others become DecodedCodec.
template <class C>
struct IsPlainCodec : std::false_type {};
template <class P>
struct IsPlainCodec<PlainCodec<P>> : std::true_type {};
template <class C>
constexpr bool has_scaling() noexcept {
  if constexpr (requires { C::kScaling; }) {
    static_assert(ScaledKVCodec<C>, "kScaling describes 4- or 8-bit integer codes of one byte type, groups of 32 n dims (0 = all), an "
                                    "offset in 0..255; num_params must be that of the scaling");
    return true;
  }
  return false;
}
template <class C>
inline constexpr bool kIntegerDots = has_scaling<C>() && C::kDotDims == 4 && std::is_unsigned_v<typename C::Code>;
template <class C>
inline constexpr bool kReadsKeys = IsPlainCodec<C>::value || kIntegerDots<C>;
template <class C>
inline constexpr bool kReadsValues = IsPlainCodec<C>::value || has_scaling<C>();
template <class C>
using KernelKey = std::conditional_t<kReadsKeys<C>, C, DecodedCodec>;
template <class C>
using KernelValue = std::conditional_t<kReadsValues<C>, C, DecodedCodec>;

/// Values whose one scale goes into the weights, and values whose parameters belong to their dims.
template <class C>
constexpr bool has_one_scale() noexcept {
  if constexpr (ScaledKVCodec<C>) return C::kScaling.group_dims == 0 && !C::kScaling.has_minimum;
  return false;
}
template <class C>
inline constexpr bool kScaledVectors = has_one_scale<C>();
template <class C>
inline constexpr bool kScaledDims = ScaledKVCodec<C> && !kScaledVectors<C>;

/// Values that are summed by integer dots against coded weights: those that `dot_codes` takes as they are.
template <class C>
constexpr bool has_signed_bytes() noexcept {
  if constexpr (ScaledKVCodec<C>) return C::kBits == 8 && std::is_signed_v<typename C::Code> && C::kScaling.offset == 0;
  return false;
}
template <class C>
inline constexpr bool kIntegerSums = kScaledVectors<C> && has_signed_bytes<C>();

/// What a plain codec's precision says of its codes; empty for other codecs. A user's own precision counts as a shipped one.
template <class C>
inline constexpr FloatShape kCodeShape{};
template <class P>
inline constexpr FloatShape kCodeShape<PlainCodec<P>> = P::kShape;

/// Formats that the processor converts itself.
template <class C>
inline constexpr bool kCodesAreHalf = kCodeShape<C>.decodes_like({.exponent_bits = 5, .mantissa_bits = 10});
template <class C>
inline constexpr bool kCodesAreUpperHalf = kCodeShape<C>.decodes_like({.exponent_bits = 8, .mantissa_bits = 7});

/// Exponent bits of an 8-bit float that the lanes widen (load_small_float); 0 = the codes are something else.
constexpr int small_exponent_bits(const FloatShape& shape) noexcept {
  if (shape.decodes_like({.exponent_bits = 5, .mantissa_bits = 2})) return 5;
  if (shape.decodes_like({.exponent_bits = 4, .mantissa_bits = 3, .range = FloatRange::kSaturateOneNan})) return 4;
  return 0;
}
template <class C>
inline constexpr int kSmallExponentBits = small_exponent_bits(kCodeShape<C>);

/// What a plain value is more than what load_plain makes of its code. A power of two: as part of the scale it changes no bit.
template <class C>
inline constexpr float kLoadedUnit = kSmallExponentBits<C> == 4 ? 0x1p8f : 1.0f;

/// head_dim rounded up to whole lanes; with 4-bit codes, to whole groups on both sides of the nibble split.
template <KVStorage KV>
constexpr std::int64_t attention_padded_dim(std::int64_t head_dim) noexcept {
  return round_up(head_dim, KV::Key::kBits == 4 || KV::Value::kBits == 4 ? 32 : 16);
}

/// The Walsh-Hadamard matrix of 16 dims: -1 where an odd number of bits are set in both indices.
struct WalshSigns {
  float value[16][16] = {};

  constexpr WalshSigns() noexcept {
    for (unsigned i = 0; i < 16; ++i) {
      for (unsigned j = 0; j < 16; ++j) value[i][j] = std::popcount(i & j) % 2 == 0 ? 1.0f : -1.0f;
    }
  }
};
inline constexpr WalshSigns kWalshSigns{};

/// The rows of up to `num_tokens` consecutive tokens of one sequence and one kv head; row = token * group + head in group.
struct AttentionTile {
  // No initial values: arrays of tiles are made for every unit of work, and few of their tiles are used.
  const BlockId* block_ids;
  std::int64_t kv_len;
  std::int64_t first_pos;
  std::int64_t num_tokens;
  std::int64_t kv_head;
  const void* q;  // [num_tokens, group, head_dim], tokens q_stride apart, of the launch's element type
  void* out;      // [num_tokens, group, head_dim], tokens out_stride apart, of the launch's element type
  float* lse;     // [num_tokens, group], tokens num_q_heads apart; may be null
};

/// States of a tile's rows. Scores are logarithms to base 2, and `max` may lie below the largest score (see cpu_softmax_body.hpp).
struct AttentionRows {
  float* max = nullptr;  // [rows]
  float* sum = nullptr;  // [rows]
  float* out = nullptr;  // [rows, padded_dim]

  AttentionRows from(std::int64_t row, std::int64_t padded_dim) const noexcept { return {max + row, sum + row, out + row * padded_dim}; }
};

/// The keys of a pair of steps that a row sees: [begin, end) of 0..64.
struct VisibleKeys {
  std::int32_t begin = 0, end = 0;
};

/// The codes of a pair of steps: halves of 16 keys each.
struct AttentionPair {
  static constexpr std::int64_t kHalves = kAttentionPairTokens / 16;
  const std::byte* keys[kHalves] = {};
  const std::byte* values[kHalves] = {};
  const std::uint16_t* key_params[kHalves] = {};
  const std::uint16_t* value_params[kHalves] = {};
};

/// What all tiles of a launch share.
struct AttentionLaunch {
  const std::byte* base = nullptr;
  std::int64_t block_stride = 0;
  KVLayerMap map;
  std::int64_t block_size = 0;
  std::int64_t head_dim = 0;
  std::int64_t padded_dim = 0;        ///< head_dim rounded up to whole lanes
  std::int64_t group = 1;             ///< query heads per kv head
  std::int64_t rows = 1;              ///< most rows of a tile, a multiple of group
  std::int64_t q_stride = 0, out_stride = 0, lse_stride = 0;
  std::int64_t key_stride = 0;        ///< bytes from one dim (or word of dims) of 16 keys to the next
  std::int64_t key_unit = 0;          ///< bytes from one key to the next inside a dim (or word of dims)
  std::int64_t value_stride = 0;      ///< bytes from one token's value to the next
  std::int64_t param_stride = 0;      ///< parameters from one kind to the next
  float score_scale = 1.0f;           ///< softmax scale, the keys' tensor scale and log2(e)
  float bias_scale = 1.0f;            ///< takes what only keys have out of score_scale: 1 / (the keys' tensor scale * kLoadedUnit)
  float value_scale = 1.0f;
  float softcap = 0.0f;               ///< times log2(e)
  std::int64_t window = 0;
  KeyBias key_bias{};
  bool keeps_query_rows = false;      ///< scaled_q is by tile, and the bias is scored by rows
  bool staged = false;  ///< pages are not in the kernel's order: each pair of steps is copied into it first
  /// Copies positions [begin, end) of a pair of steps to `page`, in the kernel's order. Only called when staged.
  void (*stage)(const void* view, const AttentionTile& tile, std::int64_t begin, std::int64_t end, std::byte* page) = nullptr;
  const void* view = nullptr;
  KVLayerMap stage_map;  ///< of the staged page
  std::int64_t stage_bytes = 0;
};

/// One worker's memory.
struct AttentionScratch {
  float* scaled_q = nullptr;           // [rows, padded_dim]; for float scores [padded_dim, rows of the register tile] by tile
  std::int8_t* q_codes = nullptr;      // [padded_dim / 4, rows of the register tile, {high, low}, 4] by tile: the queries' codes
  float* q_scale = nullptr;            // [rows]
  std::int32_t* q_start = nullptr;     // [rows, groups, 2], what dots of the two parts start from: takes the keys' offset out
  float* q_group_sum = nullptr;        // [rows, groups], scale * sum of codes
  float* scores = nullptr;             // [rows, 64], of the current pair of steps; then its weights
  float* query_rows = nullptr;         // [rows, padded_dim], for the keys' bias: scaled_q, or a copy of it where that is by tile
  float* bias_score = nullptr;         // [rows]
  float* turned_bias = nullptr;        // [padded_dim]
  float* value_params = nullptr;       // [2 * groups, 64]
  std::int8_t* weight_codes = nullptr; // [rows, {high, low}, 64], of the current pair's weights
  float* weight_scale = nullptr;       // [rows]
  std::byte* value_words = nullptr;    // [16, padded_dim, 4], the current pair's values, four tokens side by side
  std::byte* page = nullptr;           // [stage_bytes]
  VisibleKeys* visible = nullptr;      // [rows], of the current pair
  float* lane_sum = nullptr;           // [rows, 16], sums of the current split's weights by lane
  AttentionRows part, total;
};

/// Hands out 64-byte aligned pieces of a block of memory; with a null base it only counts.
class AttentionCarver {
 public:
  explicit AttentionCarver(std::byte* base) noexcept : base_(base) {}

  template <class T>
  void take(T*& pointer, std::int64_t count) noexcept {
    pointer = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += round_up(count * static_cast<std::int64_t>(sizeof(T)), kKVAlignment);
  }
  void take(AttentionRows& rows, std::int64_t num_rows, std::int64_t padded_dim) noexcept {
    take(rows.max, num_rows);
    take(rows.sum, num_rows);
    take(rows.out, num_rows * padded_dim);
  }
  void take(AttentionScratch& scratch, const AttentionLaunch& launch) noexcept {
    const std::int64_t elements = launch.rows * launch.padded_dim;
    const std::int64_t groups = ceil_div(launch.padded_dim, 32);  // a codec's are as large or larger
    take(scratch.scaled_q, elements);
    scratch.query_rows = scratch.scaled_q;
    if (launch.keeps_query_rows) take(scratch.query_rows, elements);
    take(scratch.q_codes, 2 * elements);
    take(scratch.q_scale, launch.rows);
    take(scratch.q_start, 2 * launch.rows * groups);
    take(scratch.q_group_sum, launch.rows * groups);
    take(scratch.scores, launch.rows * kAttentionPairTokens);
    take(scratch.bias_score, launch.rows);
    take(scratch.turned_bias, launch.padded_dim);
    take(scratch.value_params, 2 * groups * kAttentionPairTokens);
    take(scratch.weight_codes, 2 * launch.rows * kAttentionPairTokens);
    take(scratch.weight_scale, launch.rows);
    take(scratch.value_words, launch.padded_dim * kAttentionPairTokens);
    take(scratch.page, launch.stage_bytes);
    take(scratch.visible, launch.rows);
    take(scratch.lane_sum, launch.rows * 16);
    take(scratch.part, launch.rows, launch.padded_dim);
    take(scratch.total, launch.rows, launch.padded_dim);
  }
  std::int64_t used_bytes() const noexcept { return used_; }

 private:
  std::byte* base_;
  std::int64_t used_ = 0;
};

}  // namespace detail

KVPAGE_END_NAMESPACE
