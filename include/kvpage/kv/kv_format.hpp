/// \file KVCodec, KVFormat and PagedKV: how keys and values become codes, and the one type that names format and layout.
#pragma once

#include <kvpage/kv/kv_layout.hpp>
#include <kvpage/precision/precision.hpp>

KVPAGE_BEGIN_NAMESPACE

/// How one vector of head_dim floats (a key or a value of one token and head) becomes codes and 16-bit parameters.
///
/// A model has
///  - `Code`: one unpacked code, `kBits` of it are stored (4, 8, 16 or 32);
///  - `kDotDims`: 4 when scores are integer dot products over four codes at a time, else 1;
///  - `kRotated`: the vector is rotated (hadamard.hpp) before `encode`; readers rotate queries or outputs instead of the data;
///  - `num_params(head_dim)`: parameters per vector;
///  - `encode(x, head_dim, codes, params)`: x [head_dim] -> codes [head_dim], params [num_params]; NaN or infinity in x stays visible;
///  - `decode(code, params, d) -> float`: the value of dim d.
///
/// Kernels read two kinds of codecs in place, whoever wrote them: PlainCodec, and those that say in `kScaling` what their codes
/// mean (ScaledKVCodec). Others are decoded to floats step by step: right, but slow.
template <class C>
concept KVCodec = std::is_empty_v<C> && requires(typename C::Code code, const float* x, typename C::Code* codes,
                                                 std::uint16_t* params, const std::uint16_t* read_params, std::int64_t n) {
  { C::kBits } -> std::convertible_to<int>;
  { C::kDotDims } -> std::convertible_to<int>;
  { C::kRotated } -> std::convertible_to<bool>;
  { C::num_params(n) } -> std::same_as<std::int64_t>;
  { C::encode(x, n, codes, params) } -> std::same_as<void>;
  { C::decode(code, read_params, n) } -> std::same_as<float>;
  requires C::kBits == 4 || C::kBits == 8 || C::kBits == 16 || C::kBits == 32;
};

/// What integer codes mean: x[d] = scale[g] * (code[d] - offset) [+ minimum[g]] with g = d / group_dims. A codec that says so
/// in a member `kScaling` is read in place by the kernels, whoever wrote it. Parameters are scale[g], or pairs scale[g],
/// minimum[g]: halves, so that the product is exact in float. Scales are not negative.
struct KVScaling {
  int group_dims = 0;  ///< dims per scale: a multiple of 32, or 0 = all dims of the vector
  int offset = 0;      ///< 0..255
  bool has_minimum = false;

  KVPAGE_HD constexpr std::int64_t num_groups(std::int64_t head_dim) const noexcept {
    return group_dims == 0 ? 1 : ceil_div(head_dim, std::int64_t{group_dims});
  }
  KVPAGE_HD constexpr std::int64_t num_params(std::int64_t head_dim) const noexcept {
    return num_groups(head_dim) * (has_minimum ? 2 : 1);
  }
  constexpr bool valid() const noexcept { return group_dims >= 0 && group_dims % 32 == 0 && offset >= 0 && offset <= 255; }
};

/// A codec of 4- or 8-bit integer codes with a KVScaling. Codes of keys must be unsigned, with kDotDims 4, to be read in place.
template <class C>
concept ScaledKVCodec = KVCodec<C> && std::integral<typename C::Code> && sizeof(typename C::Code) == 1 && requires {
  requires std::same_as<decltype(C::kScaling), const KVScaling>;
  requires C::kScaling.valid() && C::num_params(kMaxHeadDim) == C::kScaling.num_params(kMaxHeadDim);
};

/// Codes are values of a precision; no parameters. The per-tensor scale of narrow floats lives in PagedKVView.
template <Precision P>
  requires(!P::kIsCode)
struct PlainCodec {
  using Code = typename P::Storage;
  static constexpr int kBits = P::kBits;
  static constexpr int kDotDims = 1;
  static constexpr bool kRotated = false;

  KVPAGE_HD static constexpr std::int64_t num_params(std::int64_t) noexcept { return 0; }
  KVPAGE_HD static constexpr void encode(const float* x, std::int64_t head_dim, Code* codes, std::uint16_t*) noexcept {
    for (std::int64_t d = 0; d < head_dim; ++d) codes[d] = P::encode(x[d]);
  }
  KVPAGE_HD static constexpr float decode(Code code, const std::uint16_t*, std::int64_t) noexcept { return P::decode(code); }
};

/// A named pair of codecs, one for keys and one for values: what users choose with `--kv-type`.
template <class F>
concept KVFormat = KVCodec<typename F::Key> && KVCodec<typename F::Value> && requires {
  { F::kName } -> std::convertible_to<std::string_view>;
};

/// Keys and values stored as one precision.
template <Precision P>
struct PlainKV {
  static constexpr std::string_view kName = P::kName;
  using Key = PlainCodec<P>;
  using Value = PlainCodec<P>;
};

/// The shape of a codec's data, as layouts see it.
template <KVCodec C>
KVPAGE_HD constexpr KVCodeShape code_shape(std::int64_t head_dim) noexcept {
  return {C::kBits, C::kDotDims, C::num_params(head_dim)};
}

/// How K and V are stored in pages: a format and a layout. Pools, views and kernels take it as their one parameter `KV`.
template <KVFormat F, KVLayout L>
struct PagedKV {
  using Format = F;
  using Key = typename F::Key;
  using Value = typename F::Value;
  using Layout = L;

  KVPAGE_HD static constexpr KVLayerMap layer_map(const KVDims& dims) noexcept {
    return L::layer_map(dims, code_shape<Key>(dims.head_dim), code_shape<Value>(dims.head_dim));
  }
};

/// Any PagedKV.
template <class T>
concept KVStorage = KVFormat<typename T::Format> && KVLayout<typename T::Layout> && requires(const KVDims& dims) {
  { T::layer_map(dims) } -> std::same_as<KVLayerMap>;
};

/// True when KV stores keys without the model's key bias (see key_bias.hpp): formats that quantise keys, and floats of so few bits
/// that the bias would leave none for the rest of the key.
template <KVStorage KV>
inline constexpr bool takes_out_key_bias = KV::Key::kRotated || KV::Key::kBits <= 8;

KVPAGE_END_NAMESPACE
