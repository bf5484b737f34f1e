/// \file PagedKVView: one layer of a paged KV cache and the block tables of a batch; trivially copyable, owns nothing.
#pragma once

#include <kvpage/base/assert.hpp>
#include <kvpage/kv/kv_format.hpp>

#include <type_traits>

KVPAGE_BEGIN_NAMESPACE

/// The pages of a batch of sequences, as a ragged triple. Sequence s owns block_ids[indptr[s]] .. block_ids[indptr[s+1] - 1];
/// entry i holds the tokens at positions i*block_size .. (i+1)*block_size - 1. An entry that no visible position needs
/// (released behind a sliding window) may be kNoBlock: it is never read.
struct KVTables {
  const std::int64_t* indptr = nullptr;   // [num_seqs + 1]
  const BlockId* block_ids = nullptr;     // [indptr[num_seqs]]
  const std::int64_t* kv_lens = nullptr;  // [num_seqs], tokens in the cache, those appended in this step included
  std::int64_t num_seqs = 0;
};

/// One layer of the pool, for reading and writing, plus the tables of the batch. All offsets are 64-bit.
///
/// Shapes: page b of the layer = base + b * block_stride, holding KV::layer_map(dims).
template <KVStorage KV>
struct PagedKVView {
  std::byte* base = nullptr;      ///< this layer's bytes in page 0
  std::int64_t block_stride = 0;  ///< bytes from one page to the next
  std::int64_t num_blocks = 0;
  KVDims dims;
  KVLayerMap map;
  float key_scale = 1.0f;    ///< per tensor: key = key_scale * decoded code
  float value_scale = 1.0f;  ///< per tensor: value = value_scale * decoded code
  KVTables tables;

  /// Byte offset of this layer in page `block` from `base`.
  KVPAGE_HD constexpr std::int64_t block_offset(BlockId block) const noexcept {
    return static_cast<std::int64_t>(block.value) * block_stride;
  }
  /// First byte of a head's data of one kind in a page.
  KVPAGE_HD std::byte* segment(const KVSegment& kind, BlockId block, std::int64_t head) const noexcept {
    KVPAGE_ASSERT(static_cast<std::int64_t>(block.value) < num_blocks, "the page is inside the pool");
    return base + block_offset(block) + kind.offset + head * kind.head_stride;
  }
  KVPAGE_HD std::byte* key_codes(BlockId block, std::int64_t head) const noexcept { return segment(map.key, block, head); }
  KVPAGE_HD std::byte* value_codes(BlockId block, std::int64_t head) const noexcept { return segment(map.value, block, head); }
  KVPAGE_HD std::uint16_t* key_params(BlockId block, std::int64_t head) const noexcept {
    return reinterpret_cast<std::uint16_t*>(segment(map.key_params, block, head));
  }
  KVPAGE_HD std::uint16_t* value_params(BlockId block, std::int64_t head) const noexcept {
    return reinterpret_cast<std::uint16_t*>(segment(map.value_params, block, head));
  }
  /// The page that holds `position` of sequence `seq`. Requires: the table has that entry.
  KVPAGE_HD BlockId block_at(std::int64_t seq, std::int64_t position) const noexcept {
    const std::int64_t entry = tables.indptr[seq] + position / dims.block_size;
    KVPAGE_ASSERT(entry < tables.indptr[seq + 1], "the block table covers the position");
    return tables.block_ids[entry];
  }
};

KVPAGE_END_NAMESPACE
