/// \file Pools and views: where pages and layers are, in 64 bits, and which shapes and memories are refused.
#include "support/catch.hpp"

#include <kvpage/base/aligned_bytes.hpp>
#include <kvpage/kv/kv_formats.hpp>
#include <kvpage/kv/kv_pool.hpp>

#include <string>
#include <type_traits>
#include <vector>

using namespace kvpage;

namespace {

using KV = CpuKV<PlainKV<F16>>;

std::string refusal(const KVPoolShape& shape, std::span<std::byte> memory) {
  try {
    const KVPool<KV> pool(shape, memory);
    return "ok";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("kv.pool.pages_hold_all_layers_and_do_not_overlap", "[kv]") {
  const KVPoolShape shape{3, 2, 64, 16, 5};
  const AlignedBytes memory(pool_bytes<KV>(shape));
  const KVPool<KV> pool(shape, memory.span());
  CHECK(page_bytes<KV>(shape) == 3 * 2 * 2 * 16 * 64 * 2);
  for (std::uint32_t block = 0; block < 5; ++block) {
    const std::span<std::byte> page = pool.page(BlockId{block});
    for (std::int64_t layer = 0; layer < 3; ++layer) {
      const PagedKVView<KV> view = pool.view(layer);
      CHECK(view.key_codes(BlockId{block}, 0) == page.data() + layer_offset<KV>(shape, layer));
      CHECK(view.value_codes(BlockId{block}, 1) + 16 * 64 * 2 <= page.data() + layer_offset<KV>(shape, layer + 1));
    }
  }
}

TEST_CASE("kv.pool.refuses_impossible_shapes_and_memories", "[kv]") {
  const KVPoolShape good{3, 2, 64, 16, 5};
  const AlignedBytes memory(pool_bytes<KV>(good));
  const std::span<std::byte> bytes = memory.span();
  CHECK(refusal(good, bytes) == "ok");
  CHECK(refusal(good, bytes.first(bytes.size() - 1)) == "the KV pool's memory is smaller than pool_bytes(shape)");
  CHECK(refusal({3, 2, 64, 16, 4}, bytes.subspan(2)) == "the KV pool's memory must be 64-byte aligned");
  CHECK(refusal({0, 2, 64, 16, 5}, bytes) == "num_layers must be at least 1");
  CHECK(refusal({3, 0, 64, 16, 5}, bytes) == "num_kv_heads must be at least 1");
  CHECK(refusal({3, 2, 12, 16, 5}, bytes) == "head_dim must be a multiple of 8 in [8, 512]");
  CHECK(refusal({3, 2, 520, 16, 5}, bytes) == "head_dim must be a multiple of 8 in [8, 512]");
  CHECK(refusal({3, 2, 64, 0, 5}, bytes) == "block_size must be in [1, 256]");
  CHECK(refusal({3, 2, 64, 16, std::int64_t{1} << 32}, bytes) == "num_blocks must be in [1, 2^32 - 1]");
  CHECK(refusal({1 << 16, 1 << 16, 512, 256, 0xFFFFFFFF}, bytes) == "num_blocks pages exceed the 64-bit address range");
}

TEST_CASE("bug.B32.page_offsets_are_64_bit", "[kv]") {
  PagedKVView<KV> view;
  static_assert(std::is_same_v<decltype(view.block_offset(BlockId{})), std::int64_t>);
  static_assert(std::is_trivially_copyable_v<PagedKVView<KV>>);
  const auto offset = [&](std::int64_t stride, std::uint32_t block) {
    view.block_stride = stride;
    return view.block_offset(BlockId{block});
  };
  // 16 tokens, 8 heads, 128 dims of 2 bytes: keys alone are 32,768 bytes.
  CHECK(KV::layer_map({8, 128, 16}).layer_bytes == 2 * 32768);
  CHECK(offset(32768, 65535) == 2147450880);
  CHECK(offset(32768, 65536) == 2147483648);
  CHECK(offset(1039680, 2066) == 2147978880);
  CHECK(offset(276480, 7768) == 2147696640);
  CHECK(offset(16384, 1048576) == 17179869184);
  CHECK(offset(std::int64_t{1} << 30, 0xFFFFFFFEu) == (std::int64_t{1} << 30) * 0xFFFFFFFEll);
  CHECK(pool_bytes<KV>({1, 8, 128, 16, 65536}) == std::int64_t{65536} * 65536);
}
