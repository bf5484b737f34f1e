/// \file Copies two steps of any layout, block size or codec into the order that the CPU kernel reads.
#pragma once

#include <kvpage/kernels/paged_attention/cpu_plan.hpp>
#include <kvpage/kv/paged_kv_view_access.hpp>

KVPAGE_BEGIN_NAMESPACE

namespace detail {

/// How a staged page is laid out: one head of two steps, dims padded to whole lanes.
template <class Key, class Value>
constexpr KVLayerMap stage_map(std::int64_t padded_dim) noexcept {
  return KeyTransposedLayout::layer_map({1, padded_dim, kAttentionPairTokens}, code_shape<Key>(padded_dim), code_shape<Value>(padded_dim));
}

/// Copies the codes and parameters of token `from` to token `to` of a staged page: keys or values, code by code.
template <bool kIsKey, class Codec, KVStorage KV>
void stage_codes(const KVSide<KV, kIsKey>& source, std::int64_t from, std::byte* codes, std::uint16_t* params, const KVDims& dims,
                 std::int64_t to) noexcept {
  using Stage = KeyTransposedLayout;
  const KVCodeShape shape = code_shape<Codec>(dims.head_dim);
  const auto index = [&](std::int64_t d) {
    return kIsKey ? Stage::key_index(dims, shape, to, d) : Stage::value_index(dims, shape, to, d);
  };
  if constexpr (Codec::kBits == 4) {
    for (std::int64_t d = 0; d < source.dims.head_dim; ++d) {
      store_code<Codec>(codes, index(d), load_code<Codec>(source.codes, source.index(from, d)));
    }
  } else {
    // Both orders are affine in whole words of dims: one stride each.
    constexpr std::int64_t kWord = kIsKey ? Codec::kDotDims : 1;
    constexpr std::int64_t kCodeBytes = Codec::kBits / 8;
    const std::byte* in = source.codes + source.index(from, 0) * kCodeBytes;
    const std::int64_t in_stride = (source.index(from, kWord) - source.index(from, 0)) * kCodeBytes;
    std::byte* out = codes + index(0) * kCodeBytes;
    const std::int64_t out_stride = (index(kWord) - index(0)) * kCodeBytes;
    for (std::int64_t d = 0; d < source.dims.head_dim; d += kWord, in += in_stride, out += out_stride) {
      std::memcpy(out, in, static_cast<std::size_t>(kWord * kCodeBytes));
    }
  }
  for (std::int64_t p = 0; p < source.shape.num_params; ++p) {
    params[Stage::param_index(dims, shape, to, p)] = source.params[KV::Layout::param_index(source.dims, source.shape, from, p)];
  }
}

/// One key or value as floats, for codecs that the kernel does not read.
template <bool kIsKey, class T>
void stage_floats(const T* vector, std::int64_t head_dim, std::byte* codes, const KVDims& dims, std::int64_t to) noexcept {
  for (std::int64_t d = 0; d < head_dim; ++d) {
    const std::int64_t index = kIsKey ? KeyTransposedLayout::key_index(dims, code_shape<DecodedCodec>(dims.head_dim), to, d)
                                      : KeyTransposedLayout::value_index(dims, code_shape<DecodedCodec>(dims.head_dim), to, d);
    store_code<DecodedCodec>(codes, index, static_cast<float>(vector[d]));
  }
}

/// AttentionLaunch::stage of a storage type.
template <KVStorage KV>
void stage_pair(const void* view_pointer, const AttentionTile& tile, std::int64_t begin, std::int64_t end, std::byte* page) noexcept {
  using Key = KernelKey<typename KV::Key>;
  using Value = KernelValue<typename KV::Value>;
  const PagedKVView<KV>& view = *static_cast<const PagedKVView<KV>*>(view_pointer);
  const KVDims dims{1, attention_padded_dim<KV>(view.dims.head_dim), kAttentionPairTokens};
  const KVLayerMap map = stage_map<Key, Value>(dims.head_dim);
  float vector[kMaxHeadDim];
  for (std::int64_t position = begin; position < end; ++position) {
    const BlockId block = tile.block_ids[position / view.dims.block_size];
    const std::int64_t from = position % view.dims.block_size;
    const std::int64_t to = position % kAttentionPairTokens;
    if constexpr (kReadsKeys<typename KV::Key>) {
      stage_codes<true, Key>(KVSide<KV, true>(view, block, tile.kv_head), from, page + map.key.offset,
                             reinterpret_cast<std::uint16_t*>(page + map.key_params.offset), dims, to);
    } else {
      read_key(view, block, tile.kv_head, from, vector);
      stage_floats<true>(vector, view.dims.head_dim, page + map.key.offset, dims, to);
    }
    if constexpr (kReadsValues<typename KV::Value>) {
      stage_codes<false, Value>(KVSide<KV, false>(view, block, tile.kv_head), from, page + map.value.offset,
                                reinterpret_cast<std::uint16_t*>(page + map.value_params.offset), dims, to);
    } else {
      read_value(view, block, tile.kv_head, from, vector);
      stage_floats<false>(vector, view.dims.head_dim, page + map.value.offset, dims, to);
    }
  }
}

}  // namespace detail

KVPAGE_END_NAMESPACE
