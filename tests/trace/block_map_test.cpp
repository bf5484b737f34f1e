/// \file The events alone give every block's references, owners and state.
#include "engine/trace/block_map.hpp"

#include "support/catch.hpp"
#include "trace/synthetic_load.hpp"

#include <map>

using namespace kvpage;
using namespace kvpage_test;

TEST_CASE("trace.block_map.a_sequence_starts_before_it_ends", "[trace]") {
  engine::BlockMap map{4};
  const CacheEvent start{.kind = CacheEventKind::kSeqStart, .seq = {0, 7}}, end{.kind = CacheEventKind::kSeqEnd, .seq = {0, 7}};
  const CacheEvent other_end{.kind = CacheEventKind::kSeqEnd, .seq = {0, 8}};
  CHECK(map.apply(end) == "sequence 7 ends, which did not start");
  REQUIRE_FALSE(map.apply(start));
  CHECK(map.recount().num_seqs == 1);
  CHECK(map.apply(start) == "sequence 7 starts while it lives");
  CHECK(map.apply(other_end) == "sequence 8 ends, which did not start");
  REQUIRE_FALSE(map.apply(end));
  CHECK(map.recount().num_seqs == 0);
}

TEST_CASE("trace.block_map.equals_the_allocator_after_every_step", "[trace]") {
  std::map<CacheEventKind, int> counts;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    const LoadOptions options{.num_blocks = 48 + static_cast<std::int64_t>(seed)};
    engine::BlockMap map{options.num_blocks};
    SyntheticLoad load{options, seed, [&](const CacheEvent& event) {
                         const auto problem = map.apply(event);
                         INFO(problem.value_or(""));
                         REQUIRE(!problem);
                         ++counts[event.kind];
                       }};
    for (int i = 0; i < 300; ++i) {
      if (i < 299) load.step(); else load.drain();
      load.allocator().check_invariants();
      const CapacitySnapshot told = load.allocator().capacity(), counted = map.recount();
      REQUIRE(counted.clean == told.clean);
      REQUIRE(counted.cached == told.cached);
      REQUIRE(counted.used == told.used);
      REQUIRE(counted.pending == told.pending);
      REQUIRE(counted.num_seqs == told.num_seqs);
      for (std::uint32_t b = 0; b < static_cast<std::uint32_t>(options.num_blocks); ++b) {
        REQUIRE(static_cast<std::int64_t>(map.blocks()[b].owners.size()) == load.allocator().ref_count(BlockId{b}));
      }
    }
  }
  for (std::size_t kind = 0; kind <= static_cast<std::size_t>(CacheEventKind::kAbort); ++kind) {
    INFO("kind " << kind);
    CHECK(counts[static_cast<CacheEventKind>(kind)] >= 20);
  }
}
