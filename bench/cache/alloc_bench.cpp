// Speed of the block allocator, as JSON lines {"figure", "value", "unit"}: allocation pairs against a bare free list, prefix match
// against hashing alone, and how full the used blocks are under a random load.
#include <kvpage/cache/block_allocator.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <vector>

namespace {

using namespace kvpage;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kPoolBlocks = 4096;
constexpr std::int64_t kHeldBlocks = 2048;
constexpr std::int64_t kPairs = 65'536;  // short runs, best of many: a shared machine takes the core away now and then
constexpr int kRepeats = 200;

void report(const char* figure, double value, const char* unit) {
  std::printf("{\"figure\": \"cache.%s\", \"value\": %.6g, \"unit\": \"%s\"}\n", figure, value, unit);
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Which of the held blocks ends next: random hold times, drawn before the clock starts.
std::vector<std::uint16_t> random_order() {
  std::mt19937_64 rng{7};
  std::vector<std::uint16_t> order(1 << 16);
  for (auto& slot : order) slot = static_cast<std::uint16_t>(rng() % kHeldBlocks);
  return order;
}

/// The best of some repeats of `run(order)`, in pairs per second.
template <class Run>
double best_pairs_per_s(Run&& run) {
  const auto order = random_order();
  double best = 0;
  for (int i = 0; i < kRepeats; ++i) {
    const auto start = Clock::now();
    run(order);
    best = std::max(best, static_cast<double>(kPairs) / seconds_since(start));
  }
  return best;
}

/// The floor: an intrusive, doubly linked queue of free blocks, without counts, states, checks or transactions.
double bare_list_pairs_per_s() {
  std::vector<detail::BlockRecord> records(kPoolBlocks);
  detail::BlockList list;
  for (std::uint32_t b = 0; b < kPoolBlocks; ++b) list.push_back(records, b);
  const auto take = [&] {
    const std::uint32_t b = list.head();
    list.remove(records, b);
    return b;
  };
  std::vector<std::uint32_t> held(kHeldBlocks);
  for (auto& b : held) b = take();
  return best_pairs_per_s([&](const std::vector<std::uint16_t>& order) {
    for (std::int64_t i = 0; i < kPairs; ++i) {
      std::uint32_t& slot = held[order[static_cast<std::size_t>(i) & 0xFFFF]];
      const std::uint32_t fresh = take();
      list.push_back(records, slot);
      slot = fresh;
    }
  });
}

/// One block ends and one starts per committed transaction.
template <class Allocator>
double pairs_per_s(const typename Allocator::IndexOptions& options) {
  const BlockAllocatorConfig config{.num_blocks = kPoolBlocks, .block_size = 16, .max_seqs = 1};
  std::vector<std::byte> memory(Allocator::required_bytes(config, options));
  Allocator allocator{config, memory, options};
  std::vector<BlockRef> held(kHeldBlocks);
  for (auto& ref : held) {
    auto plan = allocator.begin();
    ref = plan->allocate_block().value();
    plan->commit().value();
  }
  return best_pairs_per_s([&](const std::vector<std::uint16_t>& order) {
    for (std::int64_t i = 0; i < kPairs; ++i) {
      BlockRef& ref = held[order[static_cast<std::size_t>(i) & 0xFFFF]];
      auto plan = allocator.begin();
      auto fresh = plan->allocate_block();
      plan->free_block(std::move(ref)).value();
      ref = *std::move(fresh);
      plan->commit().value();
    }
  });
}

void bench_match() {
  using Allocator = BlockAllocator<>;
  const BlockAllocatorConfig config{.num_blocks = 8192, .block_size = 16, .max_seqs = 4};
  const Allocator::IndexOptions options{SipSecret{0x0123456789abcdef, 0xfedcba9876543210}};
  std::vector<std::byte> memory(Allocator::required_bytes(config, options));
  Allocator allocator{config, memory, options};
  std::mt19937_64 rng{11};
  std::vector<TokenId> tokens(4096);
  for (auto& t : tokens) t = static_cast<TokenId>(rng() % 50'000);
  auto plan = allocator.begin();
  const SeqId seq = plan->create().value();
  plan->grow(seq, 4096).value();
  plan->commit().value();
  allocator.publish(seq, {.tokens = tokens}).value();

  const auto best_us = [](auto&& call) {
    double best = 1e9;
    for (int i = 0; i < 2000; ++i) {
      const auto start = Clock::now();
      call();
      best = std::min(best, seconds_since(start) * 1e6);
    }
    return best;
  };
  std::int64_t found = 0;
  std::uint64_t sink = 0;
  const double match_us = best_us([&] { found += allocator.match({.tokens = tokens}).num_tokens; });
  const double hash_us = best_us([&] { sink ^= allocator.index().hash_only({.tokens = tokens}).lo; });
  report("match_4096", match_us, "us");
  report("match_4096_hash_only", hash_us, "us");
  report("match_4096_of_hash_only", match_us / hash_us, "ratio");
  if (found != 2000 * 4096 || sink == 1) std::printf("{\"error\": \"match found %lld tokens\"}\n", static_cast<long long>(found));
}

/// Tokens stored per token slot of used blocks: lengths uniform in [16, 2048], B = 16, sequences end at random.
void bench_utilisation() {
  using Allocator = BlockAllocator<NoIndex>;
  const BlockAllocatorConfig config{.num_blocks = 16'384, .block_size = 16, .max_seqs = 512, .max_blocks_per_seq = 128};
  std::vector<std::byte> memory(Allocator::required_bytes(config));
  Allocator allocator{config, memory};
  std::mt19937_64 rng{13};
  std::vector<SeqId> live;
  std::int64_t stored = 0;
  double tokens = 0;
  double slots = 0;
  for (int step = 0; step < 200'000; ++step) {
    auto plan = allocator.begin();
    if (rng() % 2 == 0 && live.size() < 512) {
      const SeqId seq = plan->create().value();
      const auto length = static_cast<std::int64_t>(16 + rng() % 2033);
      if (plan->grow(seq, length)) {
        live.push_back(seq);
        stored += length;
        plan->commit().value();
      }
    } else if (!live.empty()) {
      std::swap(live[rng() % live.size()], live.back());
      stored -= allocator.num_tokens(live.back());
      plan->release(live.back()).value();
      live.pop_back();
      plan->commit().value();
    }
    tokens += static_cast<double>(stored);
    slots += static_cast<double>(allocator.capacity().used * 16);
  }
  report("utilisation", tokens / slots, "tokens per slot");
}

}  // namespace

int main() {
  const double bare = bare_list_pairs_per_s();
  const double plain = pairs_per_s<BlockAllocator<NoIndex>>({});
  report("bare_list_pairs", bare, "pairs/s");
  report("alloc_pairs", plain, "pairs/s");
  report("alloc_pairs_of_bare_list", plain / bare, "ratio");
  report("alloc_pairs_indexed", pairs_per_s<BlockAllocator<>>(BlockAllocator<>::IndexOptions{SipSecret{1, 2}}), "pairs/s");
  bench_match();
  bench_utilisation();
}
