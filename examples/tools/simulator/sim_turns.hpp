/// \file SimTurns: who leads a simulated step, and that whoever is guarded keeps row and blocks until it has gained something.
#pragma once

#include "tools/simulator/sim_world.hpp"

KVPAGE_BEGIN_NAMESPACE

/// Looks at every plan. Whether a victim was guarded is told from what it waited and how often it gave way, not from the scheduler's marks.
class SimTurns {
 public:
  explicit SimTurns(SimWorld& world) : world_(world) {}

  /// The plan is open. `refused`: the cache has refused blocks that it has, and everything may give way.
  void look(const BatchPlan& batch, bool refused) {
    if (!refused) check_leader(batch), check_victims(batch);
    begun_.clear();
    for (const PlannedOwner& owner : batch.owners) {
      if (owner.cached_tokens >= 0) note_admission(batch, owner);
    }
    for (const PlannedOwner& owner : batch.loading) note_admission(batch, owner);
  }

  /// The plan was sealed: its admissions begin.
  void begin() {
    for (const auto& [request, child, from] : begun_) world_.book.requests[request.value].answers[child].turn_from = from;
  }

 private:
  struct Begun {
    RequestId request;
    std::uint32_t child;
    std::int64_t from;  ///< SimAnswer::turn_from
  };

  template <class Fn>
  void for_each_running(Fn&& fn) {
    for (std::size_t id = world_.first_open(); id < world_.book.requests.size(); ++id) {
      for (std::uint32_t child = 0; child < world_.book.requests[id].answers.size(); ++child) {
        const Request* r = world_.scheduler.find(RequestId{id}, child);
        if (r != nullptr && r->state == RequestState::kRunning) fn(*r);
      }
    }
  }

  /// Whoever leads gets rows: of those whose turn it is, the one that had waited since the earliest moment; else whoever runs with the
  /// smallest key, or it makes room for one with a smaller key.
  void check_leader(const BatchPlan& batch) {
    const Request* leader = nullptr;
    const auto turn = [](const Request& r) { return r.num_computed < r.turn_until; };
    const auto before = [&](const Request& a, const Request& b) {
      if (turn(a) != turn(b)) return turn(a);
      return turn(a) && a.waiting_since_ns != b.waiting_since_ns ? a.waiting_since_ns < b.waiting_since_ns : a.key < b.key;
    };
    for_each_running([&](const Request& r) {
      if (leader == nullptr || before(r, *leader)) leader = &r;
    });
    bool advanced = leader == nullptr;
    for (const auto* owners : {&batch.owners, &batch.loading}) {
      for (const PlannedOwner& owner : *owners) {
        const Request* r = world_.scheduler.find(owner.request, owner.child);
        advanced = advanced || (r != nullptr && (turn(*leader) ? r->key == leader->key : r->key <= leader->key));
      }
    }
    world_.book.check(advanced, "whoever leads gets rows");
  }

  void check_victims(const BatchPlan& batch) {
    for (const PlannedPreemption& victim : batch.preemptions) {
      const Request* r = world_.scheduler.find(victim.request, victim.child);
      if (r == nullptr || r->state != RequestState::kRunning) continue;  // its turn is over: only its blocks are left
      const SimAnswer& answer = world_.book.requests[victim.request.value].answers[victim.child];
      world_.book.check(answer.turn_from < answer.num_new, "whoever is guarded gains a token before it gives way",
                        static_cast<std::int64_t>(victim.request.value));
    }
  }

  /// Of a beam, child 0 is guarded for all.
  void note_admission(const BatchPlan& batch, const PlannedOwner& owner) {
    const Request* r = world_.scheduler.find(owner.request, owner.child);
    if (r == nullptr || (r->beam && r->child > 0)) return;
    const SchedulerConfig& limits = world_.config.limits;
    std::int64_t preemptions = r->num_preemptions();
    for (const PlannedPreemption& victim : batch.preemptions) {
      preemptions += victim.request == owner.request && victim.child == owner.child ? 1 : 0;
    }
    const bool overdue = world_.env.latest_ns - r->waiting_since_ns > limits.starve_after_ns;
    const bool guarded = overdue || preemptions >= limits.shield_after;
    const std::int64_t num_new = world_.book.requests[owner.request.value].answers[owner.child].num_new;
    begun_.push_back({owner.request, owner.child, guarded ? num_new : -1});
  }

  SimWorld& world_;
  std::vector<Begun> begun_;
};

KVPAGE_END_NAMESPACE
