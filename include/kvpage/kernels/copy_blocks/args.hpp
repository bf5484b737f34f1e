/// \file CopyBlocksArgs: copying pages, or the first tokens of pages, inside one pool (copy-on-write).
#pragma once

#include <kvpage/base/copy_op.hpp>
#include <kvpage/base/tables_checked.hpp>
#include <kvpage/kv/kv_pool.hpp>

#include <span>

KVPAGE_BEGIN_NAMESPACE

/// Requires: no page is both a source and a destination, and no destination occurs twice.
template <KVStorage KV>
struct CopyBlocksArgs {
  const KVPool<KV>* pool = nullptr;
  std::span<const CopyOp> copies;
};

/// The error of the pointers of a launch, or ok. Cost: O(1).
template <KVStorage KV>
Status validate(const CopyBlocksArgs<KV>& args) noexcept {
  if (args.copies.empty() || args.pool != nullptr) return {};
  return {StatusCode::kInvalidArgument, "copy_blocks: pool is null", 0, 1};
}

/// The error of the copies of a launch that `validate` accepts, or ok. Cost: O(copies).
template <KVStorage KV>
Status validate_tables(const CopyBlocksArgs<KV>& args) noexcept {
  const auto invalid = [](const char* message, std::int64_t value, std::int64_t limit) {
    return Status(StatusCode::kInvalidArgument, message, value, limit);
  };
  if (args.copies.empty()) return {};
  const KVPoolShape& shape = args.pool->shape();
  for (const CopyOp& copy : args.copies) {
    if (std::int64_t{copy.source.value} >= shape.num_blocks) {
      return invalid("copy_blocks: a source page is outside the pool", copy.source.value, shape.num_blocks);
    }
    if (std::int64_t{copy.target.value} >= shape.num_blocks) {
      return invalid("copy_blocks: a destination page is outside the pool", copy.target.value, shape.num_blocks);
    }
    if (copy.source == copy.target) return invalid("copy_blocks: a page is copied onto itself", copy.source.value, copy.target.value);
    if (copy.num_tokens < 0 || copy.num_tokens > shape.block_size) {
      return invalid("copy_blocks: num_tokens is outside the page", copy.num_tokens, shape.block_size);
    }
  }
  return {};
}

KVPAGE_END_NAMESPACE
