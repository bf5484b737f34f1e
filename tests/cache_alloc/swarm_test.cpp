// Allocators of many shapes (groups, windows, policies, hashes, small limits) under random operations, checked by what blocks contain.
// KVPAGE_SWARM_EPISODES sets how many, KVPAGE_SWARM_SEED where to start.
#include "cache_alloc/swarm_runner.hpp"

#include <kvpage/cache/eviction_arc.hpp>
#include <kvpage/cache/eviction_cost_aware.hpp>

#include "cache_alloc/colliding_hashes.hpp"
#include "support/catch.hpp"
#include "support/environment.hpp"

namespace {

using namespace kvpage_test;
using namespace kvpage;

template <class Hash, class Policy>
std::string run_episode(std::uint64_t seed, int steps, Hash hash, Coverage& coverage) {
  using Allocator = BlockAllocator<PrefixIndex<Hash>, Policy>;
  int done = 0;
  try {
    std::mt19937_64 rng{seed};
    const SwarmConfig config{rng};
    SwarmRunner<Allocator> runner{config, PrefixIndexOptions<Hash>{hash}, rng(), coverage};
    for (; done < steps; ++done) runner.step();
    runner.drain();
  } catch (const Mismatch& mismatch) {
    return mismatch.what + " after " + std::to_string(done) + " operations";
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

std::string run_seed(std::uint64_t seed, int steps, Coverage& coverage) {
  switch (seed % 4) {
    case 0: return run_episode<SipHash13, Lru>(seed, steps, SipHash13{SipSecret::fixed(1, 2)}, coverage);
    case 1: return run_episode<EightBitHash, CostAware>(seed, steps, EightBitHash{}, coverage);
    case 2: return run_episode<ConstantHash, Lru>(seed, steps, ConstantHash{}, coverage);
    default: return run_episode<SipHash13, Arc>(seed, steps, SipHash13{SipSecret::fixed(3, 4)}, coverage);
  }
}

#if defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kDefaultEpisodes = 100;
#else
constexpr std::uint64_t kDefaultEpisodes = 1'000;
#endif

std::uint64_t number_from(const char* name, std::uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

const char* const kRequired[][2] = {{"append", "kTableFull"}, {"append", "kDeadSeq"}, {"append", "kBadLength"}, {"append", "kNoBlocks"},
    {"append", "kLogFull"}, {"append", "savepoint rollback"}, {"create", "kBadNamespace"}, {"create", "kNoSeqSlot"},
    {"share", "kNotEmpty"},
    {"share", "kBadNamespace"}, {"share", "kDeadSeq"}, {"share", "partial copy"}, {"share", "whole blocks"}, {"share_stale", "kStaleHit"},
    {"rewrite", "done"}, {"rewrite", "kNoBlocks"},
    {"release_before", "blocks dropped"},
    {"release_before", "kBadLength"}, {"truncate", "kBadLength"}, {"fork", "kDeadSeq"}, {"raw_free", "kNotHeld"}, {"raw_share", "kNotHeld"},
    {"intern", "kBadNamespace"}, {"intern", "kNoNamespace"}, {"publish", "kDeadSeq"}, {"publish", "kBadLength"}, {"publish", "kBusy"},
    {"unpin", "kNotHeld"}, {"yield", "pin yields"}, {"expire", "done"}, {"commit", "kNeedsSeal"}, {"commit_step", "kOutOfOrder"},
    {"abort_step", "kOutOfOrder"}, {"abort before seal", "something to undo"}, {"abort after seal", "done"},
    {"abort after seal", "content lost"}, {"rollback", "done"}};

}  // namespace

TEST_CASE("cache_alloc.model.swarm_of_shapes_keeps_every_content", "[cache_alloc]") {
  constexpr int kSteps = 500;
  const std::uint64_t first_seed = number_from("KVPAGE_SWARM_SEED", 1);
  const std::uint64_t episodes = number_from("KVPAGE_SWARM_EPISODES", night_run() ? 200'000 : kDefaultEpisodes);
  kvpage::set_assert_handler([](const kvpage::AssertInfo& info) {
    throw Mismatch{std::string{info.message} + " (" + info.expression + ")"};
  });
  Coverage coverage;
  for (std::uint64_t seed = first_seed; seed < first_seed + episodes; ++seed) {
    const std::string failure = run_seed(seed, kSteps, coverage);
    INFO("seed " << seed << ": " << failure);
    REQUIRE(failure.empty());
  }
  for (const auto& [cell, count] : coverage) {
    std::printf("%-18s %-22s %10lld\n", cell.first.c_str(), cell.second.c_str(), static_cast<long long>(count));
  }
  for (const auto& cell : kRequired) {
    INFO(cell[0] << " x " << cell[1]);
    CHECK(coverage[{cell[0], cell[1]}] >= (episodes >= 1000 ? 100 : 0));
  }
}
