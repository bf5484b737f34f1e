/// \file KVPoolShape and KVPool: the caller's memory, seen as num_blocks equal pages that hold every layer.
#pragma once

#include <kvpage/base/error.hpp>
#include <kvpage/kv/paged_kv_view.hpp>

#include <cstddef>
#include <limits>
#include <span>

KVPAGE_BEGIN_NAMESPACE

/// Sizes of a pool. Every layer has the same number of heads and the same head_dim.
struct KVPoolShape {
  std::int64_t num_layers = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t block_size = 0;
  std::int64_t num_blocks = 0;

  KVPAGE_HD constexpr KVDims dims() const noexcept { return {num_kv_heads, head_dim, block_size}; }
};

/// Bytes of one page: all layers, one relocatable range. Requires: a valid shape.
template <KVStorage KV>
KVPAGE_HD constexpr std::int64_t page_bytes(const KVPoolShape& shape) noexcept {
  return shape.num_layers * KV::layer_map(shape.dims()).layer_bytes;
}

/// Bytes from a page's start to a layer.
template <KVStorage KV>
KVPAGE_HD constexpr std::int64_t layer_offset(const KVPoolShape& shape, std::int64_t layer) noexcept {
  return layer * KV::layer_map(shape.dims()).layer_bytes;
}

/// Bytes of the whole pool.
template <KVStorage KV>
KVPAGE_HD constexpr std::int64_t pool_bytes(const KVPoolShape& shape) noexcept {
  return shape.num_blocks * page_bytes<KV>(shape);
}

/// Throws ConfigError when a pool of this shape cannot exist.
inline void require_valid(const KVPoolShape& shape) {
  if (shape.num_layers < 1) throw_config_error("num_layers must be at least 1", shape.num_layers, 1, "layers");
  if (shape.num_kv_heads < 1) throw_config_error("num_kv_heads must be at least 1", shape.num_kv_heads, 1, "heads");
  if (shape.head_dim < 8 || shape.head_dim > kMaxHeadDim || shape.head_dim % 8 != 0) {
    throw_config_error("head_dim must be a multiple of 8 in [8, 512]", shape.head_dim, kMaxHeadDim, "dims");
  }
  if (shape.block_size < 1 || shape.block_size > 256) {
    throw_config_error("block_size must be in [1, 256]", shape.block_size, 256, "tokens");
  }
  if (shape.num_blocks < 1 || shape.num_blocks > std::int64_t{kNoBlock.value}) {
    throw_config_error("num_blocks must be in [1, 2^32 - 1]", shape.num_blocks, std::int64_t{kNoBlock.value}, "blocks");
  }
  constexpr std::int64_t kMaxCount = std::int64_t{1} << 16;
  if (shape.num_layers > kMaxCount) throw_config_error("num_layers is implausible", shape.num_layers, kMaxCount, "layers");
  if (shape.num_kv_heads > kMaxCount) throw_config_error("num_kv_heads is implausible", shape.num_kv_heads, kMaxCount, "heads");
}

/// A fixed pool over the caller's memory.
///
/// Requires: the memory outlives the pool and every view of it. Threads: views may be used by many threads; who writes a
/// page is the allocator's business.
template <KVStorage KV>
class KVPool {
 public:
  /// Errors: ConfigError for an impossible shape, memory smaller than pool_bytes or not aligned to kKVAlignment.
  KVPool(const KVPoolShape& shape, std::span<std::byte> memory) : shape_(shape), base_(memory.data()) {
    require_valid(shape);
    const std::int64_t page = page_bytes<KV>(shape);
    if (page > std::numeric_limits<std::int64_t>::max() / shape.num_blocks) {
      throw_config_error("num_blocks pages exceed the 64-bit address range", shape.num_blocks, 0, "blocks");
    }
    const auto given = static_cast<std::int64_t>(memory.size());
    if (given < pool_bytes<KV>(shape)) {
      throw_config_error("the KV pool's memory is smaller than pool_bytes(shape)", given, pool_bytes<KV>(shape), "bytes");
    }
    const auto misaligned = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(base_) % kKVAlignment);
    if (misaligned != 0) throw_config_error("the KV pool's memory must be 64-byte aligned", misaligned, kKVAlignment, "bytes");
  }

  const KVPoolShape& shape() const noexcept { return shape_; }
  std::int64_t bytes_per_page() const noexcept { return page_bytes<KV>(shape_); }

  /// All bytes of a page, for copies and host tiers. Requires: block < num_blocks.
  std::span<std::byte> page(BlockId block) const noexcept {
    KVPAGE_ASSERT(static_cast<std::int64_t>(block.value) < shape_.num_blocks, "the page is inside the pool");
    const std::int64_t bytes = bytes_per_page();
    return {base_ + static_cast<std::int64_t>(block.value) * bytes, static_cast<std::size_t>(bytes)};
  }

  /// One layer with the tables of a batch. Requires: 0 <= layer < num_layers.
  PagedKVView<KV> view(std::int64_t layer, const KVTables& tables = {}) const noexcept {
    KVPAGE_ASSERT(layer >= 0 && layer < shape_.num_layers, "the layer is inside the pool");
    PagedKVView<KV> view;
    view.base = base_ + layer_offset<KV>(shape_, layer);
    view.block_stride = bytes_per_page();
    view.num_blocks = shape_.num_blocks;
    view.dims = shape_.dims();
    view.map = KV::layer_map(view.dims);
    view.tables = tables;
    return view;
  }

 private:
  KVPoolShape shape_;
  std::byte* base_;
};

KVPAGE_END_NAMESPACE
