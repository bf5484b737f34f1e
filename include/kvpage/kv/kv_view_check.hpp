/// \file check_kv_view: what every kernel that reads or writes pages refuses of a view and its key bias.
#pragma once

#include <kvpage/base/error.hpp>
#include <kvpage/kv/key_bias.hpp>
#include <kvpage/kv/paged_kv_view.hpp>

#include <cmath>

KVPAGE_BEGIN_NAMESPACE

namespace detail {
inline bool is_scale(float value) noexcept { return value > 0.0f && !std::isinf(value); }
}  // namespace detail

/// The error of a view whose sizes or scales cannot be, or of a key bias that does not fit it; or ok.
template <KVStorage KV>
Status check_kv_view(const PagedKVView<KV>& view, const KeyBias& key_bias) noexcept {
  constexpr auto kBad = StatusCode::kInvalidArgument;
  const KVDims& dims = view.dims;
  if (dims.head_dim < 1) return {kBad, "KV view: head_dim must be positive", dims.head_dim, 1};
  if (dims.num_kv_heads < 1) return {kBad, "KV view: num_kv_heads must be positive", dims.num_kv_heads, 1};
  if (dims.block_size < 1) return {kBad, "KV view: block_size must be positive", dims.block_size, 1};
  if (!detail::is_scale(view.key_scale)) return {kBad, "KV view: key_scale must be finite and > 0"};
  if (!detail::is_scale(view.value_scale)) return {kBad, "KV view: value_scale must be finite and > 0"};
  if (!takes_out_key_bias<KV> || !key_bias) return {};
  if (key_bias.rotary_dim < 0 || key_bias.rotary_dim % 2 != 0 || key_bias.rotary_dim > dims.head_dim) {
    return {kBad, "key bias: rotary_dim must be even and at most head_dim", key_bias.rotary_dim, dims.head_dim};
  }
  if (key_bias.rotary_dim > 0 && key_bias.page_rotation == nullptr) return {kBad, "key bias: page_rotation is null", 0, 1};
  return {};
}

KVPAGE_END_NAMESPACE
