/// \file SimWorld: the production allocator and scheduler, the toy model, a clock and a book, side by side.
#pragma once

#include "tools/simulator/hostile_order.hpp"
#include "tools/simulator/refusing_cache.hpp"
#include "tools/simulator/sim_action.hpp"
#include "tools/simulator/sim_book.hpp"
#include "tools/simulator/sim_tier.hpp"

#include <kvpage/cache/tiered_allocator.hpp>
#include <kvpage/sched/any_policies.hpp>
#include <kvpage/sched/continuous_scheduler.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Names every block that got a new owner, so that the toy can poison it.
struct SimEventSink {
  static constexpr bool kEnabled = true;
  std::vector<BlockId>* taken = nullptr;
  void on_event(const CacheEvent& event) {
    if (event.kind == CacheEventKind::kAlloc && taken != nullptr) taken->push_back(event.block);
  }
};

/// What the scheduler asks of the simulated world.
struct SimEnv {
  SimBook* book;
  StepCosts step_costs{};
  std::int64_t time_ns = 1;
  std::int64_t latest_ns = 1;  ///< the scheduler's clock does not step back
  [[nodiscard]] std::int64_t now_ns() noexcept {
    latest_ns = std::max(latest_ns, time_ns);
    return time_ns;
  }
  [[nodiscard]] std::uint64_t draw_seed() const noexcept { return 7; }
  [[nodiscard]] std::pmr::memory_resource* memory() const noexcept { return std::pmr::get_default_resource(); }
  [[nodiscard]] StepCosts costs() const noexcept { return step_costs; }
  void on_event(const RequestEvent& event) { book->on_event(event, latest_ns); }
};

/// Requests of a world by what may happen to them, counted: how often a fault of each kind met a request in each state.
/// States: those of RequestState, then "ended".
struct SimTable {
  static constexpr std::size_t kNumStates = static_cast<std::size_t>(kNumRequestStates) + 1;
  std::int64_t count[kNumSimKinds][kNumStates] = {};
  void add(const SimTable& other) noexcept {
    for (std::size_t k = 0; k < kNumSimKinds; ++k) {
      for (std::size_t s = 0; s < kNumStates; ++s) count[k][s] += other.count[k][s];
    }
  }
};

/// One world, before anything has happened in it.
struct SimWorld {
  using Cache = RefusingCache<TieredAllocator<BlockAllocator<PrefixIndex<>, Lru, SimEventSink>, SimTier::Tier>>;
  using Policies = SchedulerPolicies<AnyOrder, AnyAdmission, AnyPreemption>;
  using Scheduler = ContinuousScheduler<Cache, Policies, SimEnv>;

  SimConfig config;
  std::vector<BlockId> taken;
  std::vector<std::byte> memory;
  std::optional<SimTier> tier;
  Cache cache;
  ToyModel model;
  SimBook book;
  SimEnv env;
  Scheduler scheduler;
  SimTable table{};
  std::vector<SampleResult> results;

  explicit SimWorld(const SimConfig& c)
      : config(c),
        memory(Cache::required_bytes(c.pool, options(c))),
        cache(c.pool, memory, options(c), Lru{}, SimEventSink{&taken}),
        model(cache.config()),
        book(cache.config()),
        env{&book, c.costs},
        scheduler(c.limits, cache, Policies{order_of(c), AnyAdmission::of(c.admission), {c.preempt_by_cost}}, env) {
    if (c.features.tier) {
      const auto page_bytes = c.pool.block_size * static_cast<std::int64_t>(sizeof(std::uint64_t));
      tier.emplace(OffloadTierConfig{.num_slots = c.tier_slots, .page_bytes = page_bytes, .block_size = c.pool.block_size});
      cache.use_tier(&tier->tier);
    }
    const SimFeatures& f = c.features;
    const bool faults = f.preemptions || f.refusals || f.aborts || f.exceptions || f.lost_results;
    if (!faults) book.max_times_again = c.limits.shield_after + 1;
    if (!f.namespaces) return;
    for (std::byte salt : {std::byte{1}, std::byte{2}}) {
      const NamespaceField field{.type = NamespaceFieldType::kSalt, .bytes = {&salt, 1}};
      book.check(cache.intern({&field, 1}).has_value(), "a world has room for two namespaces");
    }
  }

  [[nodiscard]] static AnyOrder order_of(const SimConfig& c) {
    return c.order == kHostileOrder ? AnyOrder{HostileOrder{c.seed}} : AnyOrder::of(c.order);
  }
  [[nodiscard]] static Cache::IndexOptions options(const SimConfig& c) {
    Cache::IndexOptions options{SipSecret::fixed(3, 5)};
    options.portable_keys = c.features.tier;
    return options;
  }

  /// A fault met a request in this state.
  void count(SimKind kind, const Request* request) {
    const std::size_t state = request == nullptr ? SimTable::kNumStates - 1 : static_cast<std::size_t>(request->state);
    ++table.count[static_cast<std::size_t>(kind)][state];
  }
  /// A fault met everybody: each state that occurs counts once.
  void count_all(SimKind kind) {
    bool seen[SimTable::kNumStates] = {};
    for (std::size_t id = first_open(); id < book.requests.size(); ++id) {
      for (std::uint32_t child = 0; child < book.requests[id].answers.size(); ++child) {
        const Request* request = scheduler.find(RequestId{id}, child);
        if (request != nullptr) seen[static_cast<std::size_t>(request->state)] = true;
      }
    }
    for (std::size_t s = 0; s < SimTable::kNumStates; ++s) table.count[static_cast<std::size_t>(kind)][s] += seen[s] ? 1 : 0;
  }

  /// Requests before this one are over.
  std::size_t first_open() {
    const auto closed = [&](const SimRequest& r) { return r.over || r.answers.empty(); };
    while (first_open_ < book.requests.size() && closed(book.requests[first_open_])) ++first_open_;
    return first_open_;
  }
  /// A request that may be in flight, drawn from the newest ones; now and then one that has ended.
  [[nodiscard]] RequestId pick(std::uint64_t word) {
    const std::size_t first = word % 16 == 0 ? 0 : first_open();
    const std::size_t count = book.requests.size() - first;
    return RequestId{count == 0 ? 0 : first + word / 16 % count};
  }

  /// The same, but one that is parked if there is any and the word says so.
  [[nodiscard]] RequestId pick_rare(std::uint64_t word) {
    for (std::size_t id = first_open(); word % 3 != 0 && id < book.requests.size(); ++id) {
      const Request* request = scheduler.find(RequestId{id});
      if (request != nullptr && request->state == RequestState::kParked) return RequestId{id};
    }
    return pick(word / 3);
  }

 private:
  std::size_t first_open_ = 0;
};

KVPAGE_END_NAMESPACE
