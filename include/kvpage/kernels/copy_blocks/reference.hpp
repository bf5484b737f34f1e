/// \file reference::copy_blocks: one code and one parameter after the other.
#pragma once

#include <kvpage/cache/paged_kv_view_access.hpp>
#include <kvpage/kernels/copy_blocks/args.hpp>

KVPAGE_BEGIN_NAMESPACE

namespace reference {
namespace detail {
template <bool kIsKey, KVStorage KV>
void copy_side(const PagedKVView<KV>& view, const BlockCopy& copy, std::int64_t head) noexcept {
  using Side = kvpage::detail::KVSide<KV, kIsKey>;
  const Side src(view, copy.src, head);
  const Side dst(view, copy.dst, head);
  for (std::int64_t t = 0; t < copy.num_tokens; ++t) {
    for (std::int64_t d = 0; d < view.dims.head_dim; ++d) {
      kvpage::detail::store_code<typename Side::Codec>(dst.codes, dst.index(t, d),
                                                       kvpage::detail::load_code<typename Side::Codec>(src.codes, src.index(t, d)));
    }
    for (std::int64_t p = 0; p < src.shape.num_params; ++p) {
      const std::int64_t at = KV::Layout::param_index(view.dims, src.shape, t, p);
      dst.params[at] = src.params[at];
    }
  }
}

template <KVStorage KV>
void copy_tokens(const KVPool<KV>& pool, const BlockCopy& copy) noexcept {
  for (std::int64_t layer = 0; layer < pool.shape().num_layers; ++layer) {
    const PagedKVView<KV> view = pool.view(layer);
    for (std::int64_t head = 0; head < view.dims.num_kv_heads; ++head) {
      copy_side<true>(view, copy, head);
      copy_side<false>(view, copy, head);
    }
  }
}
}  // namespace detail

/// See CopyBlocksArgs.
template <KVStorage KV>
[[nodiscard]] Status copy_blocks(const CopyBlocksArgs<KV>& args) noexcept {
  if (const Status status = validate(args); !status.ok()) return status;
  for (const BlockCopy& copy : args.copies) detail::copy_tokens(*args.pool, copy);
  return {};
}

}  // namespace reference

KVPAGE_END_NAMESPACE
