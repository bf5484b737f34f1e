/// \file Reading and writing one key or value of a page: the plain path that defines what the bytes mean.
#pragma once

#include <kvpage/kv/hadamard.hpp>
#include <kvpage/kv/paged_kv_view.hpp>

#include <cstring>

KVPAGE_BEGIN_NAMESPACE

namespace detail {
/// Code number `index` of a packed array; 4-bit codes: low nibble = even index.
template <KVCodec C>
typename C::Code load_code(const std::byte* codes, std::int64_t index) noexcept {
  if constexpr (C::kBits == 4) {
    const auto pair = std::to_integer<unsigned>(codes[index / 2]);
    return static_cast<typename C::Code>(index % 2 == 0 ? pair & 0xFu : pair >> 4);
  } else {
    typename C::Code code;
    std::memcpy(&code, codes + index * static_cast<std::int64_t>(sizeof code), sizeof code);
    return code;
  }
}

template <KVCodec C>
void store_code(std::byte* codes, std::int64_t index, typename C::Code code) noexcept {
  if constexpr (C::kBits == 4) {
    const auto pair = std::to_integer<unsigned>(codes[index / 2]);
    const unsigned nibble = static_cast<unsigned>(code) & 0xFu;
    codes[index / 2] = static_cast<std::byte>(index % 2 == 0 ? (pair & 0xF0u) | nibble : (pair & 0x0Fu) | (nibble << 4));
  } else {
    std::memcpy(codes + index * static_cast<std::int64_t>(sizeof code), &code, sizeof code);
  }
}

/// Where the codes and parameters of one side (keys or values) of one (page, head) are.
template <KVStorage KV, bool kIsKey>
struct KVSide {
  using Codec = std::conditional_t<kIsKey, typename KV::Key, typename KV::Value>;
  using Layout = typename KV::Layout;

  KVSide(const PagedKVView<KV>& view, BlockId block, std::int64_t head) noexcept
      : codes(kIsKey ? view.key_codes(block, head) : view.value_codes(block, head)),
        params(kIsKey ? view.key_params(block, head) : view.value_params(block, head)),
        dims(view.dims), shape(code_shape<Codec>(dims.head_dim)) {}

  std::int64_t index(std::int64_t t, std::int64_t d) const noexcept {
    return kIsKey ? Layout::key_index(dims, shape, t, d) : Layout::value_index(dims, shape, t, d);
  }
  void load_params(std::int64_t t, std::uint16_t* out) const noexcept {
    for (std::int64_t p = 0; p < shape.num_params; ++p) out[p] = params[Layout::param_index(dims, shape, t, p)];
  }
  /// out [head_dim]: decoded, still rotated where the codec rotates.
  template <class T>
  void load(std::int64_t t, T* out) const noexcept {
    std::uint16_t vector_params[kMaxKVParams] = {};
    load_params(t, vector_params);
    for (std::int64_t d = 0; d < dims.head_dim; ++d) {
      out[d] = static_cast<T>(Codec::decode(load_code<Codec>(codes, index(t, d)), vector_params, d));
    }
  }
  /// x [head_dim], rotated already where the codec rotates.
  void store(std::int64_t t, const float* x) const noexcept {
    typename Codec::Code vector_codes[kMaxHeadDim];
    std::uint16_t vector_params[kMaxKVParams] = {};
    Codec::encode(x, dims.head_dim, vector_codes, vector_params);
    for (std::int64_t d = 0; d < dims.head_dim; ++d) store_code<Codec>(codes, index(t, d), vector_codes[d]);
    for (std::int64_t p = 0; p < shape.num_params; ++p) params[Layout::param_index(dims, shape, t, p)] = vector_params[p];
  }

  std::byte* codes;
  std::uint16_t* params;
  KVDims dims;
  KVCodeShape shape;
};

template <bool kRotated, class Side, class T>
void write_vector(const Side& side, float tensor_scale, std::int64_t t, T* x) noexcept {
  if constexpr (kRotated) hadamard_rotate(x, side.dims.head_dim);
  float row[kMaxHeadDim] = {};
  for (std::int64_t d = 0; d < side.dims.head_dim; ++d) row[d] = static_cast<float>(x[d] / static_cast<T>(tensor_scale));
  side.store(t, row);
}
}  // namespace detail

/// out [head_dim] = the key of token `t` of a page, as attention sees it (without the key bias that was taken out).
template <class T, KVStorage KV>
void read_key(const PagedKVView<KV>& view, BlockId block, std::int64_t head, std::int64_t t, T* out) noexcept {
  detail::KVSide<KV, true>(view, block, head).load(t, out);
  if constexpr (KV::Key::kRotated) hadamard_unrotate(out, view.dims.head_dim);
  for (std::int64_t d = 0; d < view.dims.head_dim; ++d) out[d] *= static_cast<T>(view.key_scale);
}

/// out [head_dim] = the value of token `t` of a page.
template <class T, KVStorage KV>
void read_value(const PagedKVView<KV>& view, BlockId block, std::int64_t head, std::int64_t t, T* out) noexcept {
  detail::KVSide<KV, false>(view, block, head).load(t, out);
  if constexpr (KV::Value::kRotated) hadamard_unrotate(out, view.dims.head_dim);
  for (std::int64_t d = 0; d < view.dims.head_dim; ++d) out[d] *= static_cast<T>(view.value_scale);
}

/// Stores `key` [head_dim] (without its key bias where KV takes that out) as token `t` of a page; overwrites `key`.
template <class T, KVStorage KV>
void write_key(const PagedKVView<KV>& view, BlockId block, std::int64_t head, std::int64_t t, T* key) noexcept {
  detail::write_vector<KV::Key::kRotated>(detail::KVSide<KV, true>(view, block, head), view.key_scale, t, key);
}

/// Stores `value` [head_dim] as token `t` of a page; overwrites `value`.
template <class T, KVStorage KV>
void write_value(const PagedKVView<KV>& view, BlockId block, std::int64_t head, std::int64_t t, T* value) noexcept {
  detail::write_vector<KV::Value::kRotated>(detail::KVSide<KV, false>(view, block, head), view.value_scale, t, value);
}

KVPAGE_END_NAMESPACE
