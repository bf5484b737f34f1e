/// \file PagedAttentionArgs: causal attention of a batch of ragged sequences over paged keys and values.
#pragma once

#include <kvpage/base/tables_checked.hpp>
#include <kvpage/kv/key_bias.hpp>
#include <kvpage/kv/kv_view_check.hpp>
#include <kvpage/kv/paged_kv_view.hpp>
#include <kvpage/kv/query_span.hpp>
#include <kvpage/precision/element.hpp>

#include <cmath>
#include <span>

KVPAGE_BEGIN_NAMESPACE

/// out = softmax(scale * q k^T) v per row and head, over the visible positions of the row's sequence.
///
/// The row at position p sees positions j with 0 <= j < kv_len, j <= p and, with a window W, p - j < W. Query head h reads
/// kv head h / (num_q_heads / num_kv_heads). With a soft cap c every score s becomes c * tanh(s / c).
/// A row that sees nothing gets out 0 and lse -infinity.
///
/// Requires: every visible position is covered by its block table and written; unwritten slots may hold anything, NaN too.
/// Ensures: a row's bits depend on its query, its visible keys and values, the format and the instruction set only: never
/// on the batch, chunking, the number of workers, block ids, shared pages, block size or layout.
template <KVStorage KV, Element Q = float, Element Out = Q>
struct PagedAttentionArgs {
  const Stored<Q>* q = nullptr;  // [num_tokens, num_q_heads, head_dim], after the rotary embedding
  std::int64_t q_stride = 0;     ///< elements from one token's queries to the next token's
  std::int64_t num_tokens = 0;
  std::int64_t num_q_heads = 0;
  const QuerySpan* seqs = nullptr;  // [view.tables.num_seqs]; rows of different sequences do not overlap
  PagedKVView<KV> view;
  float scale = 0.0f;       ///< > 0, finite; there is no default: 0 is "not set"
  std::int64_t window = 0;  ///< 0 = none
  float softcap = 0.0f;     ///< 0 = none
  KeyBias key_bias{};       ///< the one given to append_kv
  Stored<Out>* out = nullptr;   // [num_tokens, num_q_heads, head_dim]
  std::int64_t out_stride = 0;  ///< elements from one token's outputs to the next token's
  float* lse = nullptr;         // [num_tokens, num_q_heads], log of the sum of exp(score); optional
  std::span<std::byte> scratch{};  ///< paged_attention_scratch_bytes(...) bytes, 64-byte aligned; the CPU kernel only
  /// Optional, the CPU kernel only: set to the key positions that sequences did not read, since others with the same pages did.
  std::int64_t* cascade_tokens = nullptr;
};

namespace detail {
template <KVStorage KV, Element Q, Element Out>
Status validate_attention_seq(const PagedAttentionArgs<KV, Q, Out>& args, std::int64_t s) noexcept {
  const auto invalid = [](const char* message, std::int64_t value, std::int64_t limit) {
    return Status(StatusCode::kInvalidArgument, message, value, limit);
  };
  const KVTables& tables = args.view.tables;
  const QuerySpan& seq = args.seqs[s];
  const std::int64_t kv_len = tables.kv_lens[s];
  if (seq.q_begin < 0 || seq.q_count < 0 || seq.q_begin > args.num_tokens - seq.q_count) {
    return invalid("paged_attention: a sequence's rows are outside num_tokens", seq.q_begin, args.num_tokens);
  }
  if (kv_len < 0) return invalid("paged_attention: a kv length is negative", kv_len, 0);
  const std::int64_t capacity = (tables.indptr[s + 1] - tables.indptr[s]) * args.view.dims.block_size;
  if (kv_len > capacity) return invalid("paged_attention: a kv length exceeds its block table", kv_len, capacity);
  if (takes_out_key_bias<KV> && args.key_bias && kv_len > args.key_bias.num_pages * kKeyBiasPageTokens) {
    return invalid("paged_attention: a kv length exceeds the key bias' pages", kv_len, args.key_bias.num_pages * kKeyBiasPageTokens);
  }
  const std::int64_t last = std::min(kv_len, seq.first_pos + seq.q_count);  // one beyond the last visible position
  const std::int64_t first = args.window == 0 ? 0 : std::max<std::int64_t>(0, seq.first_pos - args.window + 1);
  if (seq.q_count == 0) return {};
  for (std::int64_t j = first / args.view.dims.block_size; j * args.view.dims.block_size < last; ++j) {
    const std::int64_t id = tables.block_ids[tables.indptr[s] + j].value;
    if (id >= args.view.num_blocks) return invalid("paged_attention: a visible page is outside the pool", id, args.view.num_blocks);
  }
  return {};
}
}  // namespace detail

/// The error of the numbers and pointers of a launch, or ok. Cost: O(1).
template <KVStorage KV, Element Q, Element Out>
Status validate(const PagedAttentionArgs<KV, Q, Out>& args) noexcept {
  const auto invalid = [](const char* message, std::int64_t value, std::int64_t limit) {
    return Status(StatusCode::kInvalidArgument, message, value, limit);
  };
  const KVDims& dims = args.view.dims;
  const KVTables& tables = args.view.tables;
  if (args.num_tokens < 0) return invalid("paged_attention: num_tokens is negative", args.num_tokens, 0);
  if (tables.num_seqs < 0) return invalid("paged_attention: num_seqs is negative", tables.num_seqs, 0);
  if (args.num_tokens == 0 || tables.num_seqs == 0) return {};
  if (args.num_q_heads < 1 || dims.num_kv_heads < 1 || args.num_q_heads % dims.num_kv_heads != 0) {
    return invalid("paged_attention: num_q_heads must be a multiple of num_kv_heads", args.num_q_heads, dims.num_kv_heads);
  }
  if (args.q == nullptr || args.out == nullptr || args.seqs == nullptr) return invalid("paged_attention: q, out or seqs is null", 0, 1);
  if (args.view.base == nullptr || tables.indptr == nullptr || tables.kv_lens == nullptr) {
    return invalid("paged_attention: the view has no memory or no tables", 0, 1);
  }
  const std::int64_t row = args.num_q_heads * dims.head_dim;
  if (args.q_stride < row) return invalid("paged_attention: q_stride is smaller than num_q_heads * head_dim", args.q_stride, row);
  if (args.out_stride < row) return invalid("paged_attention: out_stride is smaller than num_q_heads * head_dim", args.out_stride, row);
  if (!(args.scale > 0.0f) || std::isinf(args.scale)) return invalid("paged_attention: scale must be finite and > 0", 0, 0);
  if (args.window < 0) return invalid("paged_attention: window is negative (0 = none)", args.window, 0);
  if (!(args.softcap >= 0.0f) || std::isinf(args.softcap)) return invalid("paged_attention: softcap must be finite and >= 0", 0, 0);
  return check_kv_view(args.view, args.key_bias);
}

/// The error of the spans and tables of a launch that `validate` accepts, or ok. What it says holds for every layer with this pool and
/// window, and with as many pages of key bias. Cost: O(num_seqs + visible pages).
template <KVStorage KV, Element Q, Element Out>
Status validate_tables(const PagedAttentionArgs<KV, Q, Out>& args) noexcept {
  if (args.num_tokens == 0) return {};
  for (std::int64_t s = 0; s < args.view.tables.num_seqs; ++s) {
    if (const Status status = detail::validate_attention_seq(args, s); !status.ok()) return status;
  }
  return {};
}

KVPAGE_END_NAMESPACE
