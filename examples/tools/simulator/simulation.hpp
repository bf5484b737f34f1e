/// \file Simulation: runs a world action by action, with every oracle looking.
#pragma once

#include "tools/simulator/sim_step.hpp"

KVPAGE_BEGIN_NAMESPACE

/// How a run went.
struct SimReport {
  const char* violation = nullptr;  ///< the rule that was broken; nullptr = none
  std::int64_t violation_id = -1;   ///< the request that it concerns, if it is one
  std::int64_t sealed_steps = 0;
  std::int64_t faults = 0;
  std::int64_t finished = 0;
  std::int64_t model_ns = 0;        ///< virtual time that passed
  std::uint64_t digest = 0;         ///< of everything the scheduler said
  SchedulerStats stats{};
  SimTable table{};
};

/// A run in the making.
class Simulation {
 public:
  explicit Simulation(const SimConfig& config) : world_(config), step_(world_) {}

  [[nodiscard]] SimWorld& world() noexcept { return world_; }
  [[nodiscard]] bool failed() const noexcept { return world_.book.violation != nullptr; }
  [[nodiscard]] std::int64_t sealed_steps() const noexcept { return step_.sealed_steps(); }

  void act(const SimAction& action) {
    if (failed()) return;
    if (action.kind >= SimKind::kCancel) ++faults_;
    switch (action.kind) {
      case SimKind::kSubmit: submit(action); return;
      case SimKind::kIdle: world_.env.time_ns += static_cast<std::int64_t>(action.b % 20'000'000); return;
      case SimKind::kPreempt: preempt(action); return;
      case SimKind::kFlip: flip(action); return;
      case SimKind::kReset: between_or_sealed(action, [this] { reset(); }); return;
      case SimKind::kPins: between_or_sealed(action, [&] { pin(action); }); return;
      case SimKind::kClockJump: between_or_sealed(action, [&] { jump(action); }); return;
      case SimKind::kTierReset: between_or_sealed(action, [&] { reset_tier(); }); return;
      default: step_.run(action); return;
    }
  }

  /// No more requests: everything in flight ends, and every block is free.
  SimReport finish() {
    for (std::int64_t i = 0; i < 20'000 && !failed() && world_.scheduler.num_requests() > 0; ++i) step_.run({SimKind::kStep, 0, 1});
    const CapacitySnapshot pool = world_.cache.capacity();
    world_.book.check(world_.scheduler.num_requests() == 0, "every request ends");
    world_.book.check(pool.available() + pool.pinned == pool.num_blocks && pool.num_seqs == 0, "after the drain every block is free");
    if (!failed()) world_.cache.check_invariants();
    if (world_.tier) world_.book.check(world_.tier->tier.clear().has_value(), "after the drain nothing holds a page of the host tier");
    for (const SimRequest& r : world_.book.requests) world_.book.check(r.answers.empty() || r.over, "every request has a last event");
    return {.violation = world_.book.violation, .violation_id = world_.book.violation_id, .sealed_steps = step_.sealed_steps(),
            .faults = faults_, .finished = world_.book.num_finished, .model_ns = world_.env.time_ns, .digest = world_.book.digest,
            .stats = world_.scheduler.stats(), .table = world_.table};
  }

 private:
  void submit(const SimAction& action) {
    SimRandom random{action.b, action.a};
    const SimFeatures& f = world_.config.features;
    const auto id = static_cast<std::uint64_t>(world_.book.requests.size());
    world_.book.requests.emplace_back();
    SimRequest& r = world_.book.requests.back();
    RequestSpec spec{.id = RequestId{id}, .max_new_tokens = random.in(1, world_.config.max_new)};
    if (random.one_in(2)) spec.seed = random.next();
    const std::int64_t length = random.in(1, world_.config.max_prompt);
    const std::uint64_t family = f.shared_prefixes ? static_cast<std::uint64_t>(random.in(0, f.tier ? 6 : 2)) : id;
    const std::int64_t own_from = f.shared_prefixes ? random.in(f.tier ? length / 2 : 0, length) : 0;
    for (std::int64_t p = 0; p < length; ++p) {
      const std::uint64_t word = p < own_from ? toy::fold(family, static_cast<std::uint64_t>(p)) : random.next();
      r.prompt.push_back(static_cast<TokenId>(word % SimBook::kVocab));
    }
    spec.prompt = r.prompt;
    if (f.forks && random.one_in(3)) spec.num_samples = random.in(2, 4);
    if (f.beams && random.one_in(4)) spec.num_samples = random.in(2, 4), spec.beam = true;
    for (int i = 0; f.stops && i < 2; ++i) r.stop_tokens.push_back(static_cast<TokenId>(random.next() % SimBook::kVocab));
    spec.stop_tokens = r.stop_tokens;
    if (f.priorities) spec.priority = random.in(0, 3);
    if (f.tenants) spec.tenant = static_cast<std::uint32_t>(random.in(0, 3));
    if (f.namespaces) spec.name_space = NamespaceId{static_cast<std::uint32_t>(random.in(0, 2))};
    const std::int64_t now = std::max(world_.env.latest_ns, world_.env.time_ns);
    if (f.deadlines && random.one_in(4)) spec.finish_by_ns = now + random.in(1, 400'000'000);
    if (f.deadlines && random.one_in(6)) spec.start_by_ns = now + random.in(1, 50'000'000);
    if (random.one_in(20)) spec.max_hit_tokens = random.in(0, length);
    const auto ticket = world_.scheduler.submit(spec);
    if (!ticket) {
      const bool hopeless = ticket.error().kind == RefusalKind::kInfeasible;
      world_.book.check(!hopeless || spec.finish_by_ns - now < world_.config.costs.decode_ns_per_token * spec.max_new_tokens +
                                                                   world_.config.costs.prefill_ns_per_token * length,
                        "only a deadline that cannot be met is infeasible", static_cast<std::int64_t>(id));
      return;
    }
    world_.book.check(!spec.seed || ticket->seed == *spec.seed, "a ticket names the seed of its request", static_cast<std::int64_t>(id));
    world_.book.open(spec, *ticket);
  }

  /// Half of the time while a step is in flight.
  template <class Fn>
  void between_or_sealed(const SimAction& action, Fn&& disturb) {
    if (action.a % 2 == 0) {
      step_.run(action, disturb);
    } else {
      disturb();
    }
  }

  void preempt(const SimAction& action) {
    const RequestId id = world_.pick_rare(action.b);
    world_.count(SimKind::kPreempt, world_.scheduler.find(id));
    world_.scheduler.preempt(id);
  }
  void flip(const SimAction& action) {
    const RequestId id = world_.pick_rare(action.b);
    world_.count(SimKind::kFlip, world_.scheduler.find(id));
    const auto& requests = world_.book.requests;
    const bool in_flight = id.value < requests.size() && !requests[id.value].answers.empty() && !requests[id.value].over;
    world_.book.check(world_.scheduler.set_priority(id, action.a % 5).value() == in_flight,
                       "a flip says whether the request is in flight", static_cast<std::int64_t>(id.value));
  }
  void reset() {
    world_.count_all(SimKind::kReset);
    world_.book.check(world_.cache.reset(CacheReset::kDetach).has_value(), "a reset that detaches is never refused");
  }
  /// The tier refuses while transfers are in flight.
  void reset_tier() {
    if (!world_.tier) return;
    world_.count_all(SimKind::kTierReset);
    world_.book.check(world_.tier->tier.clear().has_value() == !step_.transfers_pending(), "a tier is cleared unless pages are in flight");
  }
  void pin(const SimAction& action) {
    world_.count_all(SimKind::kPins);
    for (std::size_t i = 0; i < 8 && i < world_.book.requests.size(); ++i) {
      const SimRequest& r = world_.book.requests[world_.book.requests.size() - 1 - i];
      const PrefixHit hit = world_.cache.match({.name_space = r.spec.name_space, .tokens = r.prompt});
      const auto pinned = world_.cache.pin(hit, static_cast<std::uint8_t>(action.a % 101));
      if (!pinned && pinned.error().kind == CacheRefusalKind::kPinLimit) return;
    }
  }
  void jump(const SimAction& action) {
    world_.count_all(SimKind::kClockJump);
    const auto hours = static_cast<std::int64_t>(action.b % 5) - 1;  // one of them back
    world_.env.time_ns = std::max<std::int64_t>(1, world_.env.time_ns + hours * 3'600'000'000'000);
  }

  SimWorld world_;
  SimStep step_;
  std::int64_t faults_ = 0;
};

/// Runs the world of a config along its own course; with `trace`, the actions are kept there.
[[nodiscard]] inline SimReport simulate(const SimConfig& config, std::vector<SimAction>* trace = nullptr) {
  Simulation simulation{config};
  SimRandom random{config.seed, 2};
  while (!simulation.failed() && simulation.sealed_steps() < config.min_sealed_steps) {
    const SimAction action = draw_sim_action(random, config.features);
    if (trace != nullptr) trace->push_back(action);
    simulation.act(action);
  }
  return simulation.finish();
}

/// Runs the world of a config along a given course.
[[nodiscard]] inline SimReport replay(const SimConfig& config, std::span<const SimAction> trace) {
  Simulation simulation{config};
  for (const SimAction& action : trace) simulation.act(action);
  return simulation.finish();
}

KVPAGE_END_NAMESPACE
