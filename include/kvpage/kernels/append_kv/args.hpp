/// \file AppendKvArgs: writing the keys and values of new tokens into their pages.
#pragma once

#include <kvpage/base/tables_checked.hpp>
#include <kvpage/kv/key_bias.hpp>
#include <kvpage/kv/kv_slot.hpp>
#include <kvpage/kv/kv_view_check.hpp>
#include <kvpage/kv/paged_kv_view.hpp>
#include <kvpage/precision/element.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Writes row i of `k` and `v` to slots[i], in the format and layout KV; rows with kNoSlot are skipped.
///
/// Requires: slots are distinct (two tokens never share one). `view.tables` is not used.
/// Ensures: what a page holds of one token depends on that token's row and position alone.
template <KVStorage KV, Element X = float>
struct AppendKvArgs {
  PagedKVView<KV> view;
  const Stored<X>* k = nullptr;   // [num_tokens, num_kv_heads, head_dim], after the rotary embedding
  const Stored<X>* v = nullptr;   // [num_tokens, num_kv_heads, head_dim]
  std::int64_t k_stride = 0;      ///< elements from one token's keys to the next token's
  std::int64_t v_stride = 0;      ///< elements from one token's values to the next token's
  const KVSlot* slots = nullptr;  // [num_tokens]
  std::int64_t num_tokens = 0;
  const std::int64_t* positions = nullptr;  // [num_tokens], only read with a key bias
  KeyBias key_bias{};                       ///< ignored by formats of more than 8 bits
};

namespace detail {
template <KVStorage KV, Element X>
Status validate_append_slot(const AppendKvArgs<KV, X>& args, std::int64_t i) noexcept {
  const KVSlot slot = args.slots[i];
  if (slot == kNoSlot) return {};
  if (std::int64_t{slot.block.value} >= args.view.num_blocks) {
    return {StatusCode::kInvalidArgument, "append_kv: a slot's page is outside the pool", slot.block.value, args.view.num_blocks};
  }
  if (slot.offset >= args.view.dims.block_size) {
    return {StatusCode::kInvalidArgument, "append_kv: a slot's offset is outside its page", slot.offset, args.view.dims.block_size};
  }
  if (!takes_out_key_bias<KV> || !args.key_bias) return {};
  const std::int64_t limit = args.key_bias.num_pages * kKeyBiasPageTokens;
  if (args.positions[i] < 0 || args.positions[i] >= limit) {
    return {StatusCode::kInvalidArgument, "append_kv: a position is outside the key bias' pages", args.positions[i], limit};
  }
  return {};
}
}  // namespace detail

/// The error of the numbers and pointers of a launch, or ok. Cost: O(1).
template <KVStorage KV, Element X>
Status validate(const AppendKvArgs<KV, X>& args) noexcept {
  const auto invalid = [](const char* message, std::int64_t value, std::int64_t limit) {
    return Status(StatusCode::kInvalidArgument, message, value, limit);
  };
  if (args.num_tokens < 0) return invalid("append_kv: num_tokens is negative", args.num_tokens, 0);
  if (args.num_tokens == 0) return {};
  const std::int64_t row = args.view.dims.num_kv_heads * args.view.dims.head_dim;
  if (args.view.base == nullptr) return invalid("append_kv: the view has no memory", 0, 1);
  if (args.k == nullptr || args.v == nullptr || args.slots == nullptr) return invalid("append_kv: k, v or slots is null", 0, 1);
  if (args.k_stride < row) return invalid("append_kv: k_stride is smaller than num_kv_heads * head_dim", args.k_stride, row);
  if (args.v_stride < row) return invalid("append_kv: v_stride is smaller than num_kv_heads * head_dim", args.v_stride, row);
  if (const Status status = check_kv_view(args.view, args.key_bias); !status.ok()) return status;
  if (takes_out_key_bias<KV> && args.key_bias && args.positions == nullptr) {
    return invalid("append_kv: a key bias needs the tokens' positions", 0, 1);
  }
  return {};
}

/// The error of the slots and positions of a launch that `validate` accepts, or ok. What it says holds for every layer with this pool and
/// with as many pages of key bias. Cost: O(num_tokens).
template <KVStorage KV, Element X>
Status validate_tables(const AppendKvArgs<KV, X>& args) noexcept {
  for (std::int64_t i = 0; i < args.num_tokens; ++i) {
    if (const Status status = detail::validate_append_slot(args, i); !status.ok()) return status;
  }
  return {};
}

KVPAGE_END_NAMESPACE
