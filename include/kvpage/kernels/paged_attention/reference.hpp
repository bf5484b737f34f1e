/// \file reference::paged_attention: one row and head after the other, keys and values read back from the pages, in double.
#pragma once

#include <kvpage/kernels/paged_attention/args.hpp>
#include <kvpage/kernels/paged_attention/attention_state.hpp>
#include <kvpage/kv/paged_kv_view_access.hpp>

#include <algorithm>

KVPAGE_BEGIN_NAMESPACE

namespace reference {
namespace detail {

/// One query row and head: every visible key is a state of its own, and the states are merged in order.
template <KVStorage KV, Element Q, Element Out>
void attend_row(const PagedAttentionArgs<KV, Q, Out>& args, std::int64_t s, std::int64_t row, std::int64_t q_head) noexcept {
  const std::int64_t head_dim = args.view.dims.head_dim;
  const std::int64_t kv_head = q_head / (args.num_q_heads / args.view.dims.num_kv_heads);
  const std::int64_t position = args.seqs[s].first_pos + row - args.seqs[s].q_begin;
  const std::int64_t end = std::min(args.view.tables.kv_lens[s], position + 1);
  const std::int64_t begin = args.window == 0 ? 0 : std::max<std::int64_t>(0, position - args.window + 1);
  const Stored<Q>* q = args.q + row * args.q_stride + q_head * head_dim;

  double out[kMaxHeadDim] = {};
  double key[kMaxHeadDim];
  double value[kMaxHeadDim];
  double bias[kMaxHeadDim] = {};
  AttentionState<double> total{.out = out};
  for (std::int64_t j = begin; j < end; ++j) {
    const BlockId block = args.view.block_at(s, j);
    const std::int64_t t = j % args.view.dims.block_size;
    read_key(args.view, block, kv_head, t, key);
    read_value(args.view, block, kv_head, t, value);
    if (takes_out_key_bias<KV> && args.key_bias) turned_key_bias(args.key_bias, j / kKeyBiasPageTokens, kv_head, head_dim, bias);
    double score = 0.0;
    for (std::int64_t d = 0; d < head_dim; ++d) score += element_value<Q>(q[d]) * (key[d] + bias[d]);
    score *= static_cast<double>(args.scale);
    if (args.softcap > 0.0f) score = static_cast<double>(args.softcap) * std::tanh(score / static_cast<double>(args.softcap));
    merge_attention(total, AttentionState<double>{score, 1.0, value}, head_dim);
  }
  normalize_attention(total, head_dim);
  Stored<Out>* result = args.out + row * args.out_stride + q_head * head_dim;
  for (std::int64_t d = 0; d < head_dim; ++d) result[d] = ElementCodec<Out>::encode(static_cast<float>(out[d]));
  if (args.lse != nullptr) args.lse[row * args.num_q_heads + q_head] = static_cast<float>(total.lse());
}

}  // namespace detail

/// paged_attention over tables that `validate_tables` accepts.
template <KVStorage KV, Element Q, Element Out>
[[nodiscard]] Status paged_attention(const PagedAttentionArgs<KV, Q, Out>& args, TablesChecked) noexcept {
  if (const Status status = validate(args); !status.ok()) return status;
  if (args.num_tokens == 0) return {};
  for (std::int64_t s = 0; s < args.view.tables.num_seqs; ++s) {
    for (std::int64_t i = 0; i < args.seqs[s].q_count; ++i) {
      for (std::int64_t head = 0; head < args.num_q_heads; ++head) detail::attend_row(args, s, args.seqs[s].q_begin + i, head);
    }
  }
  return {};
}

/// See PagedAttentionArgs.
template <KVStorage KV, Element Q, Element Out>
[[nodiscard]] Status paged_attention(const PagedAttentionArgs<KV, Q, Out>& args) noexcept {
  if (const Status status = validate_launch(args); !status.ok()) return status;
  return paged_attention(args, kTablesChecked);
}

}  // namespace reference

KVPAGE_END_NAMESPACE
