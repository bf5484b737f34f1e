/// \file The memory planner's numbers, as compile-time constants.
#include "support/catch.hpp"

#include <kvpage/kv/kv_formats.hpp>
#include <kvpage/kv/plan_bytes.hpp>

#include <map>
#include <string>

using namespace kvpage;

namespace {
/// Bytes of one token and head, keys and values, in a page of 32 tokens.
template <KVFormat Format>
constexpr std::int64_t token_head_bytes(std::int64_t head_dim) {
  return plan_bytes<CpuKV<Format>>({1, 1, head_dim, 32, 0}, 32).bytes_per_token;
}
}  // namespace

TEST_CASE("kv.plan_bytes.bytes_per_token_and_head", "[kv]") {
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> bytes;
  for_each_type(KVFormats{}, [&]<class Format>() {
    bytes[std::string(Format::kName)] = {token_head_bytes<Format>(64), token_head_bytes<Format>(256)};
  });
  using Pair = std::pair<std::int64_t, std::int64_t>;
  CHECK(bytes["f32"] == Pair{512, 2048});
  CHECK(bytes["f16"] == Pair{256, 1024});
  CHECK(bytes["bf16"] == Pair{256, 1024});
  CHECK(bytes["fp8"] == Pair{128, 512});
  CHECK(bytes["int8"] == Pair{132, 516});
  CHECK(bytes["int4"] == Pair{106, 418});
  CHECK(bytes["int4-k4"] == Pair{80, 320});
}

TEST_CASE("kv.plan_bytes.is_constexpr_and_counts_whole_pages", "[kv]") {
  constexpr KVPoolShape kShape{30, 3, 64, 32, 0};  // 30 layers, 3 kv heads
  constexpr KVPlan kPlan = plan_bytes<CpuKV<DefaultKVFormat>>(kShape, 1000, 2);
  static_assert(kPlan.num_blocks == 2 * 32);
  static_assert(kPlan.bytes_per_token == 2 * 30 * 3 * 64 * 2);
  static_assert(kPlan.payload_per_token == kPlan.bytes_per_token);
  static_assert(kPlan.pool_bytes == kPlan.num_blocks * kPlan.page_bytes);
  constexpr KVPlan kQuantized = plan_bytes<CpuKV<Int8KV>>(kShape, 1000, 2);
  static_assert(kQuantized.bytes_per_token == 11880);
  static_assert(kQuantized.payload_per_token == 11520);
  CHECK(kPlan.pool_bytes == pool_bytes<CpuKV<DefaultKVFormat>>({30, 3, 64, 32, 64}));
}
