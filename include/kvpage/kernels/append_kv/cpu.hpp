/// \file append_kv on the CPU backend: tokens over the workers.
#pragma once

#include <kvpage/cache/paged_kv_view_access.hpp>
#include <kvpage/exec/cpu.hpp>
#include <kvpage/kernels/append_kv/args.hpp>

KVPAGE_BEGIN_NAMESPACE

namespace detail {
/// Writes the keys and values of token `i`.
template <KVStorage KV>
void append_token(const AppendKvArgs<KV>& args, std::int64_t i) noexcept {
  const KVSlot slot = args.slots[i];
  if (slot == kNoSlot) return;
  const std::int64_t head_dim = args.view.dims.head_dim;
  float row[kMaxHeadDim];
  float bias[kMaxHeadDim];
  for (std::int64_t head = 0; head < args.view.dims.num_kv_heads; ++head) {
    const float* k = args.k + i * args.k_stride + head * head_dim;
    const float* v = args.v + i * args.v_stride + head * head_dim;
    std::copy_n(k, head_dim, row);
    if (takes_out_key_bias<KV> && args.key_bias) {
      turned_key_bias(args.key_bias, args.positions[i] / kKeyBiasPageTokens, head, head_dim, bias);
      for (std::int64_t d = 0; d < head_dim; ++d) row[d] -= bias[d];
    }
    write_key(args.view, slot.block, head, slot.offset, row);
    std::copy_n(v, head_dim, row);
    write_value(args.view, slot.block, head, slot.offset, row);
  }
}
}  // namespace detail

/// See AppendKvArgs. Threads: one launch at a time per Cpu; tokens are spread over the workers.
template <KVStorage KV>
[[nodiscard]] Status append_kv(Cpu& cpu, const AppendKvArgs<KV>& args) noexcept {
  if (const Status status = validate(args); !status.ok()) return status;
  cpu.parallel_for(args.num_tokens, [&args](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) detail::append_token(args, i);
  });
  return {};
}

KVPAGE_END_NAMESPACE
