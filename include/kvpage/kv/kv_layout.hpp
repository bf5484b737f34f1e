/// \file KVLayout: where the codes and parameters of one layer lie inside a page of the KV pool.
#pragma once

#include <kvpage/base/types.hpp>

#include <concepts>
#include <string_view>

KVPAGE_BEGIN_NAMESPACE

/// The sizes that place a token inside one layer of one page.
struct KVDims {
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t block_size = 0;  ///< tokens per page

  friend constexpr bool operator==(const KVDims&, const KVDims&) = default;
};

/// What a layout needs to know of a codec: the size of a code, and what it keeps beside the codes of one token and head.
struct KVCodeShape {
  int bits = 0;                 ///< per code: 4, 8, 16 or 32
  int dot_dims = 1;             ///< neighbouring dims of one key that an integer dot product reads as one word
  std::int64_t num_params = 0;  ///< 16-bit parameters (scales, minima) per token and head
};

/// Bytes of one kind of data (key codes, value codes, key or value parameters) inside one layer of a page.
struct KVSegment {
  std::int64_t offset = 0;       ///< bytes from the layer's start to kv head 0
  std::int64_t head_stride = 0;  ///< bytes from one kv head to the next
};

/// The four segments of one layer of a page.
struct KVLayerMap {
  KVSegment key, value, key_params, value_params;
  std::int64_t layer_bytes = 0;  ///< a multiple of kKVAlignment
};

/// Every layer and, where heads are contiguous, every head starts at a multiple of this many bytes.
inline constexpr std::int64_t kKVAlignment = 64;

/// Most dims per head that the cache stores, and most parameters per vector that a codec may keep.
inline constexpr std::int64_t kMaxHeadDim = 512;
inline constexpr std::int64_t kMaxKVParams = 64;

/// A stateless description of an order of codes. `key_index`, `value_index` and `param_index` count codes (or parameters)
/// from the start of a head's segment; over all tokens, dims and heads of a layer they are a bijection onto its codes.
///
/// Requires, for 4-bit codes: head_dim is a multiple of 8 (two codes share a byte, and both belong to one token).
template <class L>
concept KVLayout = std::is_empty_v<L> && requires(const KVDims& dims, const KVCodeShape& code, std::int64_t i) {
  { L::kName } -> std::convertible_to<std::string_view>;
  { L::layer_map(dims, code, code) } -> std::same_as<KVLayerMap>;
  { L::key_index(dims, code, i, i) } -> std::same_as<std::int64_t>;
  { L::value_index(dims, code, i, i) } -> std::same_as<std::int64_t>;
  { L::param_index(dims, code, i, i) } -> std::same_as<std::int64_t>;
};

namespace detail {
KVPAGE_HD constexpr std::int64_t code_bytes(const KVCodeShape& code, std::int64_t num_codes) noexcept {
  return num_codes * code.bits / 8;
}
KVPAGE_HD constexpr std::int64_t param_bytes(const KVCodeShape& code, std::int64_t num_tokens) noexcept {
  return num_tokens * code.num_params * 2;
}

/// A head page: the bytes of one (layer, page, kv head) are contiguous: key codes, value codes, key params, value params.
KVPAGE_HD constexpr KVLayerMap head_page_map(const KVDims& dims, const KVCodeShape& key, const KVCodeShape& value) noexcept {
  const std::int64_t num_codes = dims.block_size * dims.head_dim;
  KVLayerMap map;
  map.value.offset = round_up(code_bytes(key, num_codes), kKVAlignment);
  map.key_params.offset = map.value.offset + round_up(code_bytes(value, num_codes), kKVAlignment);
  map.value_params.offset = map.key_params.offset + param_bytes(key, dims.block_size);
  const std::int64_t head_bytes = round_up(map.value_params.offset + param_bytes(value, dims.block_size), kKVAlignment);
  for (KVSegment* segment : {&map.key, &map.value, &map.key_params, &map.value_params}) segment->head_stride = head_bytes;
  map.layer_bytes = head_bytes * dims.num_kv_heads;
  return map;
}
}  // namespace detail

/// [block_size, num_kv_heads, head_dim]: all heads of a token together, as the projections produce them.
struct TokenMajorLayout {
  static constexpr std::string_view kName = "token-major";

  KVPAGE_HD static constexpr KVLayerMap layer_map(const KVDims& dims, const KVCodeShape& key, const KVCodeShape& value) noexcept {
    const std::int64_t vectors = dims.block_size * dims.num_kv_heads;
    KVLayerMap map;
    map.key.head_stride = detail::code_bytes(key, dims.head_dim);
    map.value = {round_up(detail::code_bytes(key, vectors * dims.head_dim), kKVAlignment), detail::code_bytes(value, dims.head_dim)};
    map.key_params = {map.value.offset + round_up(detail::code_bytes(value, vectors * dims.head_dim), kKVAlignment),
                      detail::param_bytes(key, 1)};
    map.value_params = {map.key_params.offset + detail::param_bytes(key, vectors), detail::param_bytes(value, 1)};
    map.layer_bytes = round_up(map.value_params.offset + detail::param_bytes(value, vectors), kKVAlignment);
    return map;
  }
  KVPAGE_HD static constexpr std::int64_t key_index(const KVDims& dims, const KVCodeShape&, std::int64_t t, std::int64_t d) noexcept {
    return t * dims.num_kv_heads * dims.head_dim + d;
  }
  KVPAGE_HD static constexpr std::int64_t value_index(const KVDims& dims, const KVCodeShape& code, std::int64_t t,
                                                      std::int64_t d) noexcept {
    return key_index(dims, code, t, d);
  }
  KVPAGE_HD static constexpr std::int64_t param_index(const KVDims& dims, const KVCodeShape& code, std::int64_t t,
                                                      std::int64_t p) noexcept {
    return t * dims.num_kv_heads * code.num_params + p;
  }
};
static_assert(KVLayout<TokenMajorLayout>);

/// [num_kv_heads, block_size, head_dim]: a head's keys are contiguous; parameters are [num_params, block_size].
struct HeadMajorLayout {
  static constexpr std::string_view kName = "head-major";

  KVPAGE_HD static constexpr KVLayerMap layer_map(const KVDims& dims, const KVCodeShape& key, const KVCodeShape& value) noexcept {
    return detail::head_page_map(dims, key, value);
  }
  KVPAGE_HD static constexpr std::int64_t key_index(const KVDims& dims, const KVCodeShape&, std::int64_t t, std::int64_t d) noexcept {
    return t * dims.head_dim + d;
  }
  KVPAGE_HD static constexpr std::int64_t value_index(const KVDims& dims, const KVCodeShape& code, std::int64_t t,
                                                      std::int64_t d) noexcept {
    return key_index(dims, code, t, d);
  }
  KVPAGE_HD static constexpr std::int64_t param_index(const KVDims& dims, const KVCodeShape&, std::int64_t t, std::int64_t p) noexcept {
    return p * dims.block_size + t;
  }
};
static_assert(KVLayout<HeadMajorLayout>);

/// The order of the CPU kernels: keys [head_dim / w, block_size, w] with w = dot_dims, so that one load holds one dim (or
/// one word of dims) of 16 keys; values [block_size, head_dim]; parameters [num_params, block_size].
/// 4-bit codes: a byte pairs dim i (low nibble) with dim i + head_dim / 2, so that unpacking needs no shuffle.
struct KeyTransposedLayout {
  static constexpr std::string_view kName = "key-transposed";

  KVPAGE_HD static constexpr KVLayerMap layer_map(const KVDims& dims, const KVCodeShape& key, const KVCodeShape& value) noexcept {
    return detail::head_page_map(dims, key, value);
  }
  KVPAGE_HD static constexpr std::int64_t key_index(const KVDims& dims, const KVCodeShape& code, std::int64_t t,
                                                    std::int64_t d) noexcept {
    const std::int64_t dims_per_nibble = code.bits == 4 ? dims.head_dim / 2 : dims.head_dim;
    const std::int64_t low = d % dims_per_nibble;
    const std::int64_t unit = (low / code.dot_dims * dims.block_size + t) * code.dot_dims + low % code.dot_dims;
    return code.bits == 4 ? 2 * unit + d / dims_per_nibble : unit;
  }
  KVPAGE_HD static constexpr std::int64_t value_index(const KVDims& dims, const KVCodeShape& code, std::int64_t t,
                                                      std::int64_t d) noexcept {
    if (code.bits != 4) return t * dims.head_dim + d;
    const std::int64_t half = dims.head_dim / 2;
    return 2 * (t * half + d % half) + d / half;
  }
  KVPAGE_HD static constexpr std::int64_t param_index(const KVDims& dims, const KVCodeShape&, std::int64_t t, std::int64_t p) noexcept {
    return p * dims.block_size + t;
  }
};
static_assert(KVLayout<KeyTransposedLayout>);

KVPAGE_END_NAMESPACE
