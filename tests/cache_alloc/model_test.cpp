// The allocator against the naive map, operation by operation. KVPAGE_MODEL_OPS sets how many, KVPAGE_MODEL_SEED where to start.
#include "cache_alloc/colliding_hashes.hpp"
#include "cache_alloc/model_runner.hpp"
#include "support/catch.hpp"
#include "support/environment.hpp"

namespace {

using namespace kvpage_test;

constexpr int kOpsPerEpisode = 300;
constexpr std::uint64_t kCoveringOps = 10'000'000;  // enough for a thousand of every outcome
#if defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kDefaultOps = 500'000;  // instrumented, an operation takes ten times as long
#else
constexpr std::uint64_t kDefaultOps = kCoveringOps;
#endif

ModelSizes sizes_of(std::uint64_t seed) {
  ModelSizes sizes;
  sizes.num_blocks = 4 + static_cast<int>(seed * 7 % 9);
  if (seed % 10 == 2) sizes.max_blocks = 3;
  if (seed % 8 == 3) sizes.max_log_entries = 16;
  if (seed % 8 == 1 || seed % 8 >= 5) sizes.max_copies = 1;
  return sizes;
}

template <class Hash>
std::string run_episode(std::uint64_t seed, const std::vector<Op>& ops, Coverage& coverage, Hash hash) {
  using Allocator = kvpage::BlockAllocator<kvpage::PrefixIndex<Hash>>;
  try {
    typename Allocator::IndexOptions options{hash};
    options.max_namespaces = 2;
    ModelRunner<Allocator> runner{sizes_of(seed), options, coverage};
    for (const Op& op : ops) runner.apply(op);
    runner.drain();
  } catch (const Mismatch& mismatch) {
    return mismatch.what;
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

std::string run_seed(std::uint64_t seed, const std::vector<Op>& ops, Coverage& coverage) {
  if (seed % 3 == 0) return run_episode(seed, ops, coverage, kvpage::SipHash13{kvpage::SipSecret::fixed(1, 2)});
  if (seed % 3 == 1) return run_episode(seed, ops, coverage, EightBitHash{});
  return run_episode(seed, ops, coverage, ConstantHash{});
}

/// Deletes runs of operations as long as the same failure stays, longest runs first.
std::vector<Op> shrink(std::uint64_t seed, std::vector<Op> ops) {
  Coverage ignored;
  const auto kind = [&](const std::vector<Op>& some) { return run_seed(seed, some, ignored).substr(0, 20); };
  const std::string failure = kind(ops);
  for (std::size_t length = ops.size() / 2; length > 0; length /= 2) {
    for (std::size_t at = 0; at + length <= ops.size();) {
      std::vector<Op> shorter = ops;
      shorter.erase(shorter.begin() + static_cast<std::ptrdiff_t>(at), shorter.begin() + static_cast<std::ptrdiff_t>(at + length));
      if (kind(shorter) != failure) {
        at += length;
      } else {
        ops = std::move(shorter);
      }
    }
  }
  return ops;
}

std::uint64_t number_from(const char* name, std::uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

/// Fails the test on a mismatch, with the seed and the shortest list of operations that shows it.
void run_all(std::uint64_t first_seed, std::uint64_t num_ops, Coverage& coverage) {
  for (std::uint64_t seed = first_seed; (seed - first_seed) * kOpsPerEpisode < num_ops; ++seed) {
    const std::vector<Op> ops = random_ops(seed, kOpsPerEpisode);
    const std::string failure = run_seed(seed, ops, coverage);
    if (failure.empty()) continue;
    const std::vector<Op> fewest = shrink(seed, ops);
    Coverage ignored;
    std::printf("seed %llu: %s\nshrunk to %zu operations: %s\n", static_cast<unsigned long long>(seed), failure.c_str(), fewest.size(),
                run_seed(seed, fewest, ignored).c_str());
    print_ops(fewest);
    FAIL("the allocator and the model differ");
  }
}

const char* const kRequired[][2] = {{"create", "done"}, {"create", "kNoSeqSlot"}, {"append", "done"}, {"append", "kNoBlocks"},
    {"append", "savepoint rollback"}, {"make_writable", "copy"}, {"make_writable", "kNoBlocks"}, {"make_writable", "leaf eviction"},
    {"make_writable", "kCopiesFull"}, {"append", "kLogFull"}, {"truncate", "done"}, {"truncate", "kBadLength"}, {"release", "done"},
    {"release", "pending"}, {"fork", "done"}, {"fork", "kNoSeqSlot"}, {"share", "done"}, {"share", "partial copy"}, {"share", "takeover"},
    {"share", "leaf eviction"}, {"share", "partial without a block"}, {"share_stale", "kStaleHit"}, {"share_stale", "done"},
    {"match", "miss"}, {"match", "full hit"}, {"match", "partial hit"}, {"seal", "done"}, {"seal", "kBusy"}, {"commit_open", "done"},
    {"commit_open", "kNeedsSeal"}, {"commit_open", "behind a sealed step"}, {"abort_open", "done"}, {"abort_open", "after an eviction"},
    {"commit_step", "done"}, {"commit_step", "kBusy"}, {"commit_step", "kOutOfOrder"}, {"abort_step", "done"}, {"abort_step", "kBusy"},
    {"abort_step", "kOutOfOrder"}, {"abort_step", "content lost"}, {"retire", "done"}, {"retire", "kBusy"}, {"retire", "kOutOfOrder"},
    {"publish", "done"}, {"publish", "kBusy"}, {"publish", "adoption"}, {"pin", "done"}, {"pin", "kPinLimit"}, {"pin", "kStaleHit"},
    {"unpin", "done"}, {"yield", "pin yields"}, {"reset", "done"}, {"reset", "kBusy"}, {"raw_alloc", "done"}, {"raw_alloc", "kNoBlocks"},
    {"raw_alloc", "leaf eviction"}, {"raw_share", "done"}, {"raw_free", "done"}, {"raw_free_twice", "kNotHeld"}, {"raw_free_twice", "done"},
    {"rollback", "done"}, {"begin", "kBusy"}, {"probe_order", "done"}, {"dead_seq", "kDeadSeq"},
    {"append", "kTableFull"}, {"share_into", "kNotEmpty"}, {"share_foreign", "kBadNamespace"}, {"create_unknown", "kBadNamespace"},
    {"create_unknown", "kNoSeqSlot"}, {"intern", "kBadNamespace"}, {"intern", "kNoNamespace"}, {"intern", "done"}};

}  // namespace

TEST_CASE("cache_alloc.model.every_operation_agrees_with_the_naive_map", "[cache_alloc]") {
  const std::uint64_t num_ops = number_from("KVPAGE_MODEL_OPS", night_run() ? 1'000'000'000 : kDefaultOps);
  const std::uint64_t seed = number_from("KVPAGE_MODEL_SEED", 1);
  std::printf("model test: seeds from %llu, %llu operations\n", static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(num_ops));
  kvpage::set_assert_handler([](const kvpage::AssertInfo& info) {
    throw Mismatch{std::string{info.message} + " (" + info.expression + ")"};
  });
  Coverage coverage;
  run_all(seed, num_ops, coverage);
  for (const auto& [cell, count] : coverage) {
    std::printf("%-16s %-26s %10lld\n", cell.first.c_str(), cell.second.c_str(), static_cast<long long>(count));
  }
  for (const auto& cell : kRequired) {
    INFO(cell[0] << " x " << cell[1]);
    CHECK(coverage[{cell[0], cell[1]}] >= (num_ops >= kCoveringOps ? 1000 : 0));
  }
}
