/// \file plan_paged_attention: what the CPU kernel decides once per step and cache group, as plain bytes for the launches of all layers.
#pragma once

#include <kvpage/kernels/paged_attention/cpu_launch.hpp>

#include <cstring>
#include <span>

KVPAGE_BEGIN_NAMESPACE

/// The head of a plan: which launches it is for, and what their work is. One detail::PlannedSeq per sequence follows: in which order
/// sequences are taken, which of them read their leading splits together, and where the items of each begin. Nothing of a layer is in it.
struct AttentionPlan {
  std::int64_t num_seqs = 0;
  std::int64_t num_tokens = 0;
  std::int64_t num_q_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t block_size = 0;
  std::int64_t window = 0;
  std::int64_t tile_rows = 0;     ///< most rows of an item
  std::int64_t num_items = 0;
  std::int64_t most_rows = 0;     ///< of the largest item
  std::int64_t saved_tokens = 0;  ///< key positions that sequences need not read, since their group does
};
static_assert(std::is_trivially_copyable_v<AttentionPlan> && std::is_trivially_copyable_v<detail::PlannedSeq>);
static_assert(sizeof(AttentionPlan) % alignof(detail::PlannedSeq) == 0, "entries follow the head");

/// Bytes of a plan of up to `num_seqs` sequences.
[[nodiscard]] constexpr std::int64_t paged_attention_plan_bytes(std::int64_t num_seqs) noexcept {
  return static_cast<std::int64_t>(sizeof(AttentionPlan)) + num_seqs * static_cast<std::int64_t>(sizeof(detail::PlannedSeq));
}

namespace detail {

/// Fills order [num_seqs] and says what comes of it.
template <KVStorage KV, Element Q, Element Out>
AttentionPlan plan_attention(const PagedAttentionArgs<KV, Q, Out>& args, const AttentionLaunch& launch, PlannedSeq* order) noexcept {
  const std::int64_t most_tokens = gains_from_groups<KV>(launch) ? launch.rows / launch.group : 0;
  AttentionPlan plan{.num_seqs = args.view.tables.num_seqs, .num_tokens = args.num_tokens, .num_q_heads = args.num_q_heads,
                     .num_kv_heads = args.view.dims.num_kv_heads, .block_size = args.view.dims.block_size, .window = args.window,
                     .tile_rows = launch.rows};
  plan.saved_tokens = AttentionGroups(args, most_tokens, order).plan();
  const AttentionItems items(args, launch, order);
  plan.num_items = items.number(order);
  plan.most_rows = items.most_rows();
  return plan;
}

/// The error of bytes that cannot hold a plan of `num_seqs` sequences, or ok.
inline Status check_plan_bytes(std::span<const std::byte> bytes, std::int64_t num_seqs) noexcept {
  const auto given = static_cast<std::int64_t>(bytes.size());
  const std::int64_t needed = paged_attention_plan_bytes(num_seqs);
  if (given < needed) {
    return {StatusCode::kCapacity, "paged_attention: the plan is smaller than paged_attention_plan_bytes()", needed, given};
  }
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(PlannedSeq) != 0) {
    return {StatusCode::kInvalidArgument, "paged_attention: the plan must be 8-byte aligned", 0, alignof(PlannedSeq)};
  }
  return {};
}

/// The error of a plan that was made for other launches, or ok.
template <KVStorage KV, Element Q, Element Out>
Status check_plan(const AttentionPlan& plan, const PagedAttentionArgs<KV, Q, Out>& args, const AttentionLaunch& launch) noexcept {
  const KVDims& dims = args.view.dims;
  const struct {
    const char* message;
    std::int64_t planned, given;
  } fields[] = {{"paged_attention: the plan has another num_seqs", plan.num_seqs, args.view.tables.num_seqs},
                {"paged_attention: the plan has another num_tokens", plan.num_tokens, args.num_tokens},
                {"paged_attention: the plan has another num_q_heads", plan.num_q_heads, args.num_q_heads},
                {"paged_attention: the plan has another num_kv_heads", plan.num_kv_heads, dims.num_kv_heads},
                {"paged_attention: the plan has another block_size", plan.block_size, dims.block_size},
                {"paged_attention: the plan has another window", plan.window, args.window},
                {"paged_attention: the plan has tiles of other rows", plan.tile_rows, launch.rows}};
  for (const auto& field : fields) {
    if (field.planned != field.given) return {StatusCode::kInvalidArgument, field.message, field.planned, field.given};
  }
  return {};
}

}  // namespace detail

/// Plans the launches of a step: `args` are those of any layer of a cache group, whose tables `validate_tables` accepts; the plan holds
/// for all layers that differ from it in pointers, scales, scale, softcap and key bias alone.
///
/// Requires: `plan` has paged_attention_plan_bytes(num_seqs) bytes, 8-byte aligned. Ensures: launches with a plan have the bits of those
/// without. Cost: O(num_seqs log num_seqs + table entries), no allocation.
template <KVStorage KV, Element Q, Element Out>
[[nodiscard]] Status plan_paged_attention(const PagedAttentionArgs<KV, Q, Out>& args, std::span<std::byte> plan, TablesChecked) noexcept {
  if (const Status status = validate(args); !status.ok()) return status;
  if (args.num_tokens == 0 || args.view.tables.num_seqs == 0) return {};  // launches without work read no plan
  if (const Status status = detail::check_plan_bytes(plan, args.view.tables.num_seqs); !status.ok()) return status;
  auto* order = reinterpret_cast<detail::PlannedSeq*>(plan.data() + sizeof(AttentionPlan));
  const detail::AttentionLaunch launch = detail::make_launch<KV>(args.view.dims, args.num_q_heads);
  const AttentionPlan head = detail::plan_attention(args, launch, order);
  std::memcpy(plan.data(), &head, sizeof(head));
  return {};
}

/// The same; tables are checked first.
template <KVStorage KV, Element Q, Element Out>
[[nodiscard]] Status plan_paged_attention(const PagedAttentionArgs<KV, Q, Out>& args, std::span<std::byte> plan) noexcept {
  if (const Status status = validate_launch(args); !status.ok()) return status;
  return plan_paged_attention(args, plan, kTablesChecked);
}

KVPAGE_END_NAMESPACE
