// Speed of the block allocator, as JSON lines {"figure", "value", "unit"}: allocation pairs against a bare free list, prefix match
// against hashing alone, and how full the used blocks are under a random load.
#include "cache/random_hold_load.hpp"

#include <kvpage/cache/block_allocator.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>

namespace {

using namespace kvpage;
using namespace kvpage_bench;
using Clock = std::chrono::steady_clock;

void report(const char* figure, double value, const char* unit) {
  std::printf("{\"figure\": \"cache.%s\", \"value\": %.6g, \"unit\": \"%s\"}\n", figure, value, unit);
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// The floor: the allocator's own intrusive list of the same records, without counts, states, checks or transactions.
class BareList {
 public:
  using Held = std::uint32_t;

  BareList() {
    for (std::uint32_t b = 0; b < records_.size(); ++b) list_.push_back(records_, b);
  }
  static std::uint32_t id(Held b) { return b; }
  Held take() { return list_.pop_front(records_); }
  void drop(Held&& b) { list_.push_front(records_, b); }

 private:
  std::vector<detail::BlockRecord> records_{std::vector<detail::BlockRecord>(RandomHoldLoad<BareList>::kPoolBlocks)};
  detail::BlockList list_;
};

/// One committed transaction per block taken, and one per block given back.
template <class Allocator>
class TransactionPool {
 public:
  using Held = BlockRef;

  explicit TransactionPool(const typename Allocator::IndexOptions& options)
      : memory_(Allocator::required_bytes(kConfig, options)), allocator_(kConfig, memory_, options) {}

  static std::uint32_t id(const Held& block) { return block.id().value; }
  Held take() {
    auto plan = allocator_.begin();
    Held block = plan->allocate_block().value();
    plan->commit().value();
    return block;
  }
  void drop(Held&& block) {
    auto plan = allocator_.begin();
    plan->free_block(std::move(block)).value();
    plan->commit().value();
  }

 private:
  static constexpr BlockAllocatorConfig kConfig{.num_blocks = RandomHoldLoad<TransactionPool>::kPoolBlocks, .block_size = 16};

  std::vector<std::byte> memory_;
  Allocator allocator_;
};

/// Best of many short runs in turn: a shared machine takes the core away now and then.
void bench_pairs() {
  using Plain = TransactionPool<BlockAllocator<NoIndex>>;
  using Indexed = TransactionPool<BlockAllocator<>>;
  constexpr std::int64_t kPairs = 65'536;
  constexpr int kRounds = 300;
  BareList list;
  Plain plain{NoIndex::Options{}};
  Indexed indexed{BlockAllocator<>::IndexOptions{SipSecret::fixed(1, 2)}};
  RandomHoldLoad<BareList> list_load{list};
  RandomHoldLoad<Plain> plain_load{plain};
  RandomHoldLoad<Indexed> indexed_load{indexed};
  double best[3] = {};
  const auto measure = [&](double& rate, auto& load) {
    const auto start = Clock::now();
    load.run(kPairs);
    rate = std::max(rate, static_cast<double>(kPairs) / seconds_since(start));
  };
  for (int i = 0; i < kRounds; ++i) {
    measure(best[0], list_load);
    measure(best[1], plain_load);
    measure(best[2], indexed_load);
  }
  report("bare_list_pairs", best[0], "pairs/s");
  report("alloc_pairs", best[1], "pairs/s");
  report("alloc_pairs_of_bare_list", best[1] / best[0], "ratio");
  report("alloc_pairs_indexed", best[2], "pairs/s");
}

void bench_match() {
  using Allocator = BlockAllocator<>;
  const BlockAllocatorConfig config{.num_blocks = 8192, .block_size = 16, .max_seqs = 4};
  const Allocator::IndexOptions options{SipSecret::fixed(0x0123456789abcdef, 0xfedcba9876543210)};
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
  bench_pairs();
  bench_match();
  bench_utilisation();
}
