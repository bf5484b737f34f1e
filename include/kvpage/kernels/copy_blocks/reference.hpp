/// \file reference::copy_blocks: one bit after the other, from the layout's definition alone.
#pragma once

#include <kvpage/kernels/copy_blocks/args.hpp>

KVPAGE_BEGIN_NAMESPACE

namespace reference {
namespace detail {

/// `num_bits` bits from bit `at` of one head's segment of a page to the same place of another page. Bit 0 is a byte's lowest.
inline void copy_bits(const std::byte* source, std::byte* target, std::int64_t at, std::int64_t num_bits) noexcept {
  for (std::int64_t bit = at; bit < at + num_bits; ++bit) {
    const auto mask = static_cast<std::byte>(1u << (bit % 8));
    target[bit / 8] = (target[bit / 8] & ~mask) | (source[bit / 8] & mask);
  }
}

/// Token t of one head.
template <KVStorage KV>
void copy_token(const PagedKVView<KV>& view, const CopyOp& copy, std::int64_t head, std::int64_t t) noexcept {
  using Layout = typename KV::Layout;
  const KVCodeShape key = code_shape<typename KV::Key>(view.dims.head_dim);
  const KVCodeShape value = code_shape<typename KV::Value>(view.dims.head_dim);
  const auto copy_item = [&](const KVSegment& kind, std::int64_t index, std::int64_t bits) {
    copy_bits(view.segment(kind, copy.source, head), view.segment(kind, copy.target, head), index * bits, bits);
  };
  for (std::int64_t d = 0; d < view.dims.head_dim; ++d) {
    copy_item(view.map.key, Layout::key_index(view.dims, key, t, d), key.bits);
    copy_item(view.map.value, Layout::value_index(view.dims, value, t, d), value.bits);
  }
  for (std::int64_t p = 0; p < key.num_params; ++p) copy_item(view.map.key_params, Layout::param_index(view.dims, key, t, p), 16);
  for (std::int64_t p = 0; p < value.num_params; ++p) copy_item(view.map.value_params, Layout::param_index(view.dims, value, t, p), 16);
}

}  // namespace detail

/// copy_blocks of copies that `validate_tables` accepts.
template <KVStorage KV>
[[nodiscard]] Status copy_blocks(const CopyBlocksArgs<KV>& args, TablesChecked) noexcept {
  if (const Status status = validate(args); !status.ok()) return status;
  for (const CopyOp& copy : args.copies) {
    for (std::int64_t layer = 0; layer < args.pool->shape().num_layers; ++layer) {
      const PagedKVView<KV> view = args.pool->view(layer);
      for (std::int64_t head = 0; head < view.dims.num_kv_heads; ++head) {
        for (std::int64_t t = 0; t < copy.num_tokens; ++t) detail::copy_token(view, copy, head, t);
      }
    }
  }
  return {};
}

/// See CopyBlocksArgs.
template <KVStorage KV>
[[nodiscard]] Status copy_blocks(const CopyBlocksArgs<KV>& args) noexcept {
  if (const Status status = validate_launch(args); !status.ok()) return status;
  return copy_blocks(args, kTablesChecked);
}

}  // namespace reference

KVPAGE_END_NAMESPACE
