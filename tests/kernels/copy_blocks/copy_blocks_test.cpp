/// \file copy_blocks: whole and partial pages in every storage, nothing else touched.
#include "support/catch.hpp"

#include <kvpage/base/aligned_bytes.hpp>
#include <kvpage/kernels/copy_blocks/cpu.hpp>
#include <kvpage/kernels/copy_blocks/reference.hpp>
#include <kvpage/kv/kv_formats.hpp>

#include <cstring>
#include <random>
#include <string>
#include <vector>

using namespace kvpage;

namespace {

/// A pool of random bytes.
template <KVStorage KV>
struct Case {
  explicit Case(std::int64_t block_size) : shape{2, 2, 80, block_size, 6}, memory(pool_bytes<KV>(shape)) {
    std::mt19937 random(3);
    for (std::byte& b : memory.span()) b = static_cast<std::byte>(random());
  }
  KVPool<KV> pool() { return {shape, memory.span()}; }
  KVPoolShape shape;
  AlignedBytes memory;
};

/// Every code and parameter of a page, token by token.
template <KVStorage KV>
std::vector<std::vector<int>> tokens_of(const KVPool<KV>& pool, BlockId block) {
  std::vector<std::vector<int>> tokens(static_cast<std::size_t>(pool.shape().block_size));
  const auto add = [&]<bool kIsKey>(std::bool_constant<kIsKey>, std::int64_t layer, std::int64_t head) {
    using Side = detail::KVSide<KV, kIsKey>;
    const Side side(pool.view(layer), block, head);
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      const auto token = static_cast<std::int64_t>(t);
      for (std::int64_t d = 0; d < pool.shape().head_dim; ++d) {
        const auto code = detail::load_code<typename Side::Codec>(side.codes, side.index(token, d));
        std::uint32_t bits = 0;
        std::memcpy(&bits, &code, sizeof code);
        tokens[t].push_back(static_cast<int>(bits));
      }
      std::uint16_t params[kMaxKVParams] = {};
      side.load_params(token, params);
      for (std::int64_t p = 0; p < side.shape.num_params; ++p) tokens[t].push_back(params[p]);
    }
  };
  for (std::int64_t layer = 0; layer < pool.shape().num_layers; ++layer) {
    for (std::int64_t head = 0; head < pool.shape().num_kv_heads; ++head) {
      add(std::true_type{}, layer, head);
      add(std::false_type{}, layer, head);
    }
  }
  return tokens;
}

template <KVStorage KV>
void check_copies(std::int64_t block_size) {
  Case<KV> before(block_size);
  Case<KV> fast(block_size);
  Case<KV> slow(block_size);
  const std::int64_t part = block_size / 2 + 1;
  const std::vector<CopyOp> copies{{BlockId{0}, BlockId{3}, block_size}, {BlockId{0}, BlockId{4}, part}, {BlockId{1}, BlockId{5}, 0}};
  Cpu cpu({.num_threads = 2});
  const KVPool<KV> pool = fast.pool();
  const KVPool<KV> slow_pool = slow.pool();
  REQUIRE(copy_blocks(cpu, CopyBlocksArgs<KV>{&pool, copies}).ok());
  REQUIRE(reference::copy_blocks(CopyBlocksArgs<KV>{&slow_pool, copies}).ok());
  const auto source = tokens_of(before.pool(), BlockId{0});
  Case<KV> unchecked(block_size);
  const KVPool<KV> unchecked_pool = unchecked.pool();
  const CopyBlocksArgs<KV> unchecked_args{&unchecked_pool, copies};
  REQUIRE(validate_tables(unchecked_args).ok());
  REQUIRE(copy_blocks(cpu, unchecked_args, kTablesChecked).ok());
  CHECK((tokens_of(pool, BlockId{3}) == source));
  const auto old = tokens_of(before.pool(), BlockId{4});
  const auto partial = tokens_of(pool, BlockId{4});
  for (std::size_t t = 0; t < partial.size(); ++t) CHECK((partial[t] == (static_cast<std::int64_t>(t) < part ? source[t] : old[t])));
  for (const std::uint32_t block : {0u, 1u, 2u, 5u}) {
    CHECK(std::memcmp(pool.page(BlockId{block}).data(), before.pool().page(BlockId{block}).data(), pool.page(BlockId{block}).size()) == 0);
  }
  for (std::uint32_t block = 0; block < 6; ++block) {
    CHECK((tokens_of(pool, BlockId{block}) == tokens_of(slow_pool, BlockId{block})));
    CHECK((tokens_of(unchecked_pool, BlockId{block}) == tokens_of(pool, BlockId{block})));
  }
}

}  // namespace

TEST_CASE("copy_blocks.whole_and_partial_pages_arrive_and_nothing_else_changes", "[copy_blocks]") {
  for_each_type(KVFormats{}, []<class Format>() {
    for (const std::int64_t block_size : {8, 16, 32, 64}) {
      INFO(std::string(Format::kName) << ", block size " << block_size);
      check_copies<PagedKV<Format, KeyTransposedLayout>>(block_size);
      check_copies<PagedKV<Format, TokenMajorLayout>>(block_size);
      check_copies<PagedKV<Format, HeadMajorLayout>>(block_size);
    }
  });
}

TEST_CASE("copy_blocks.bad_copies_are_refused", "[copy_blocks]") {
  using KV = CpuKV<DefaultKVFormat>;
  Case<KV> problem(16);
  const KVPool<KV> pool = problem.pool();
  Cpu cpu({.num_threads = 1});
  const auto message = [&](CopyOp copy) { return std::string(copy_blocks(cpu, CopyBlocksArgs<KV>{&pool, {&copy, 1}}).message()); };
  CHECK(message({BlockId{6}, BlockId{0}, 1}) == "copy_blocks: a source page is outside the pool");
  CHECK(message({BlockId{0}, kNoBlock, 1}) == "copy_blocks: a destination page is outside the pool");
  CHECK(message({BlockId{2}, BlockId{2}, 1}) == "copy_blocks: a page is copied onto itself");
  CHECK(message({BlockId{2}, BlockId{1}, 17}) == "copy_blocks: num_tokens is outside the page");
  CHECK(message({BlockId{2}, BlockId{1}, -1}) == "copy_blocks: num_tokens is outside the page");
  CHECK(message({BlockId{2}, BlockId{1}, 16}) == "ok");
  const CopyOp beyond{BlockId{6}, BlockId{0}, 1};
  CHECK(validate(CopyBlocksArgs<KV>{&pool, {&beyond, 1}}).ok());  // copies are no numbers of the launch
  CHECK(std::string(copy_blocks(cpu, CopyBlocksArgs<KV>{nullptr, {&beyond, 1}}, kTablesChecked).message()) == "copy_blocks: pool is null");
}
