/// \file reference::append_kv: one token and head after the other, in double.
#pragma once

#include <kvpage/kernels/append_kv/args.hpp>
#include <kvpage/kv/paged_kv_view_access.hpp>

KVPAGE_BEGIN_NAMESPACE

namespace reference {

/// append_kv to slots that `validate_tables` accepts.
template <KVStorage KV, Element X>
[[nodiscard]] Status append_kv(const AppendKvArgs<KV, X>& args, TablesChecked) noexcept {
  if (const Status status = validate(args); !status.ok()) return status;
  const KVDims& dims = args.view.dims;
  double row[kMaxHeadDim];
  double bias[kMaxHeadDim];
  for (std::int64_t i = 0; i < args.num_tokens; ++i) {
    const KVSlot slot = args.slots[i];
    if (slot == kNoSlot) continue;
    for (std::int64_t head = 0; head < dims.num_kv_heads; ++head) {
      for (std::int64_t d = 0; d < dims.head_dim; ++d) row[d] = element_value<X>(args.k[i * args.k_stride + head * dims.head_dim + d]);
      if (takes_out_key_bias<KV> && args.key_bias) {
        turned_key_bias(args.key_bias, args.positions[i] / kKeyBiasPageTokens, head, dims.head_dim, bias);
        for (std::int64_t d = 0; d < dims.head_dim; ++d) row[d] -= bias[d];
      }
      write_key(args.view, slot.block, head, slot.offset, row);
      for (std::int64_t d = 0; d < dims.head_dim; ++d) row[d] = element_value<X>(args.v[i * args.v_stride + head * dims.head_dim + d]);
      write_value(args.view, slot.block, head, slot.offset, row);
    }
  }
  return {};
}

/// See AppendKvArgs. Rotation and the key bias are computed in double and rounded once, before quantising.
template <KVStorage KV, Element X>
[[nodiscard]] Status append_kv(const AppendKvArgs<KV, X>& args) noexcept {
  if (const Status status = validate_launch(args); !status.ok()) return status;
  return append_kv(args, kTablesChecked);
}

}  // namespace reference

KVPAGE_END_NAMESPACE
