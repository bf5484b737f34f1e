#include "cache_tier/naive_tier.hpp"
#include "cache_tier/tier_fixture.hpp"
#include "support/catch.hpp"
#include "support/environment.hpp"

#include <random>
#include <string>

namespace {

using namespace kvpage;
using namespace kvpage_test;

constexpr std::int64_t kPageBytes = 40;
constexpr std::int64_t kBlockSize = 4;
constexpr int kNumContents = 24;

/// An OffloadTier and the naive one, driven by the same random numbers and compared after every operation.
template <bool kPersistent>
class ModelRun {
 public:
  using Tier = OffloadTier<FlakyStore<kPersistent>>;

  ModelRun(std::uint32_t num_slots, std::uint64_t seed) : rng_(seed) {
    config_ = {.num_slots = num_slots, .page_bytes = kPageBytes, .block_size = kBlockSize, .layout_id = 5};
    naive_.num_slots = num_slots;
    naive_.persistent = kPersistent;
    disk_.bytes.resize(static_cast<std::size_t>(num_slots * Tier::slot_bytes(config_)));
    start();
  }

  void step() {
    switch (pick(12)) {
      case 0: case 1: case 2: return reserve();
      case 3: case 4: return demote();
      case 5: return cancel();
      case 6: case 7: return hold();
      case 8: return promote();
      case 9: return pick(2) == 0 ? release() : drop();
      case 10: return look();
      default: return pick(4) == 0 ? damage_or_restart() : promote();
    }
  }

  void check() {
    tier_->check_invariants();
    const auto stored = static_cast<std::int64_t>(naive_.order.size());
    const auto in_flight = static_cast<std::int64_t>(naive_.slots.size()) - stored;
    REQUIRE(tier_->capacity() == TierCapacity{naive_.num_slots, naive_.num_slots - stored - in_flight, stored, in_flight});
  }

  const std::map<std::string, std::int64_t>& cells() const { return cells_; }

 private:
  std::uint32_t pick(std::uint32_t n) { return static_cast<std::uint32_t>(rng_() % n); }
  void count(const std::string& op, const std::string& outcome) { ++cells_[op + ": " + outcome]; }
  void compare(const char* op, const TierResult<void>& got, const Outcome& wanted) {
    count(op, wanted ? describe(*wanted) : "done");
    REQUIRE(got.has_value() == !wanted.has_value());
    if (wanted) REQUIRE(got.error().kind == *wanted);
  }

  /// Four contents have each key: group and tokens decide.
  static Tokens tokens_of(int content) { return {7, 7, 7, static_cast<TokenId>(content % 2)}; }
  static TierContent content_of(int content, const Tokens& tokens) {
    return {key_of(content / 4), tokens, static_cast<std::uint32_t>(content / 2 % 2)};
  }
  static std::vector<std::byte> page_of(int version) { return page_bytes(static_cast<std::size_t>(kPageBytes), version); }

  /// Faults of the coming operation, given to both.
  std::vector<StoreFault> faults() {
    std::vector<StoreFault> coming;
    if (pick(3) == 0) {
      for (int i = 0; i < 3; ++i) coming.push_back(static_cast<StoreFault>(pick(4) == 0 ? 1 + pick(2) : 0));
    }
    disk_.faults.assign(coming.rbegin(), coming.rend());
    return coming;
  }
  std::uint32_t any_slot() { return pick(naive_.num_slots + 1); }
  /// Mostly one for which `wanted` holds, sometimes any.
  template <class Fn>
  std::uint32_t some_slot(Fn&& wanted) {
    std::vector<std::uint32_t> fitting;
    for (std::uint32_t s = 0; s < naive_.num_slots; ++s) {
      if (wanted(s)) fitting.push_back(s);
    }
    return fitting.empty() || pick(8) == 0 ? any_slot() : fitting[pick(static_cast<std::uint32_t>(fitting.size()))];
  }

  void reserve() {
    const int content = static_cast<int>(pick(kNumContents));
    Tokens tokens = tokens_of(content);
    if (pick(16) == 0) tokens.pop_back();
    const std::uint32_t known = naive_.find(content);
    const auto candidates = naive_.candidates();
    const auto got = tier_->reserve(content_of(content, tokens));
    if (std::ssize(tokens) != kBlockSize) {
      count("reserve", describe(Kind::kBadContent));
      REQUIRE(got.error() == TierRefusal{Kind::kBadContent, kBlockSize, kBlockSize - 1});
    } else if (naive_.is(known, false)) {
      count("reserve", describe(Kind::kInFlight));
      REQUIRE(got.error() == TierRefusal{Kind::kInFlight, 0, 1});
    } else if (naive_.is(known, true)) {
      count("reserve", "known");
      REQUIRE((got->slot == known && !got->needs_copy));
      naive_.use(known);
    } else if (candidates.empty()) {
      count("reserve", describe(Kind::kNoFreeSlot));
      REQUIRE(got.error() == TierRefusal{Kind::kNoFreeSlot, 1, 0});
    } else {
      REQUIRE((got.has_value() && got->needs_copy));
      REQUIRE(std::count(candidates.begin(), candidates.end(), got->slot) == 1);
      count("reserve", naive_.slots.count(got->slot) == 1 ? "done, replacing" : "done");
      naive_.reserve(got->slot, content);
    }
  }
  void demote() {
    const std::uint32_t slot = some_slot([&](std::uint32_t s) { return naive_.is(s, false); });
    const auto page = page_of(++last_page_);
    if (pick(16) == 0 && naive_.is(slot, false)) {
      count("demote", describe(Kind::kBadPage));
      REQUIRE(tier_->demote(slot, std::span{page}.first(3)).error() == TierRefusal{Kind::kBadPage, kPageBytes, 3});
      return;
    }
    const auto coming = faults();
    compare("demote", tier_->demote(slot, page), naive_.demote(slot, last_page_, coming));
  }
  void cancel() {
    const std::uint32_t slot = some_slot([&](std::uint32_t s) { return naive_.is(s, false); });
    const auto coming = faults();
    compare("cancel", tier_->cancel(slot), naive_.cancel(slot, coming));
  }
  void hold() {
    const std::uint32_t slot = some_slot([&](std::uint32_t s) { return naive_.is(s, true); });
    compare("hold", tier_->hold(slot), naive_.hold(slot));
  }
  void promote() {
    const std::uint32_t slot = some_slot([&](std::uint32_t s) { return naive_.held(s); });
    std::vector<std::byte> page(static_cast<std::size_t>(kPageBytes));
    const int expected = naive_.held(slot) ? naive_.slots[slot].page : NaiveTier::kNothing;
    const auto coming = faults();
    const auto got = tier_->promote(slot, page);
    compare("promote", got, naive_.promote(slot, coming));
    if (got) REQUIRE(page == page_of(expected));
  }
  void release() {
    const std::uint32_t slot = some_slot([&](std::uint32_t s) { return naive_.held(s); });
    compare("release", tier_->release(slot), naive_.release(slot));
  }
  void drop() {
    const std::uint32_t slot = some_slot([&](std::uint32_t s) { return naive_.is(s, true) && !naive_.held(s); });
    const auto coming = faults();
    compare("drop", tier_->drop(slot), naive_.drop(slot, coming));
  }
  void look() {
    const int content = static_cast<int>(pick(kNumContents));
    const Tokens tokens = tokens_of(content);
    const std::uint32_t known = naive_.find(content);
    count("find", naive_.is(known, true) ? "found" : "none");
    REQUIRE(tier_->find(content_of(content, tokens)) == (naive_.is(known, true) ? known : kNoTierSlot));
    const std::uint32_t slot = any_slot();
    const TierTransfer stands = naive_.is(slot, true)    ? TierTransfer::kDone
                                : naive_.is(slot, false) ? TierTransfer::kPending
                                                         : TierTransfer::kFailed;
    REQUIRE(tier_->poll(slot) == stands);
  }
  void damage_or_restart() {
    disk_.faults.clear();
    if (kPersistent && pick(2) == 0) {
      count("restart", "done");
      start();
      naive_.restart();
      return;
    }
    const std::uint32_t slot = pick(naive_.num_slots);
    const std::int64_t page_begin = (slot + 1) * Tier::slot_bytes(config_) - kPageBytes;
    disk_.bytes[static_cast<std::size_t>(page_begin + pick(kPageBytes))] ^= static_cast<std::byte>(1u << pick(8));
    naive_.disk[slot].page = NaiveTier::kNothing;
    count("damage", "done");
  }
  void start() {
    memory_.assign(Tier::required_bytes(config_), std::byte{0xEE});
    tier_.reset();
    tier_ = std::make_unique<Tier>(config_, memory_, FlakyStore<kPersistent>{disk_});
  }

  std::mt19937_64 rng_;
  OffloadTierConfig config_;
  Disk disk_;
  NaiveTier naive_;
  std::vector<std::byte> memory_;
  std::unique_ptr<Tier> tier_;
  std::map<std::string, std::int64_t> cells_;
  int last_page_ = 0;
};

template <bool kPersistent>
void run(int num_runs, int num_steps, std::map<std::string, std::int64_t>& cells) {
  for (int i = 0; i < num_runs; ++i) {
    const std::uint64_t seed = (night_run() ? std::random_device{}() : 77u) + static_cast<std::uint64_t>(i);
    const std::uint32_t num_slots = 1 + static_cast<std::uint32_t>(i) % 12;
    INFO("seed " << seed << ", slots " << num_slots << ", persistent " << kPersistent);
    ModelRun<kPersistent> model{num_slots, seed};
    for (int step = 0; step < num_steps; ++step) {
      CAPTURE(step);
      model.step();
      model.check();
    }
    for (const auto& [cell, n] : model.cells()) cells[cell] += n;
  }
}

constexpr int kNumCells = 28;  ///< every operation with every outcome that it has
}  // namespace

TEST_CASE("cache_tier.model.agrees_with_naive_maps_after_every_operation", "[cache_tier]") {
  std::map<std::string, std::int64_t> cells;
  run<false>(96, 1'000, cells);
  run<true>(96, 1'000, cells);
  std::string table;
  for (const auto& [cell, n] : cells) table += cell + " = " + std::to_string(n) + "\n";
  INFO(table);
  CHECK(cells.size() == kNumCells);
  for (const auto& [cell, n] : cells) {
    INFO(cell);
    CHECK(n >= 100);
  }
}
