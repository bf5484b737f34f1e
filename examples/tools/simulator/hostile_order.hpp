/// \file HostileOrder: an order that answers every question at random, to show that the scheduler's laws need no help from an order.
#pragma once

#include <kvpage/sched/order_policy.hpp>
#include <kvpage/sched/simulator/sim_random.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Ranks and accounts without sense, charges of everything or less than nothing, batches that nobody may join, waits for nothing.
/// Equal seeds and questions give equal answers.
class HostileOrder {
 public:
  explicit HostileOrder(std::uint64_t seed) : random_(seed, 6) {}
  [[nodiscard]] std::int64_t rank(const RequestView&) const { return any(); }
  [[nodiscard]] std::int64_t priority(const RequestView&) const { return random_.one_in(2) ? random_.in(0, 3) : any(); }
  [[nodiscard]] std::uint64_t account(const RequestView&) const { return random_.one_in(4) ? kNoAccount : random_.next() % 8; }
  [[nodiscard]] std::int64_t charge(const RequestView&, const WorkDone&) const { return any(); }
  [[nodiscard]] std::int64_t look_ahead() const { return random_.in(-1, 8); }
  [[nodiscard]] std::int64_t rank_by_hit(const RequestView&, std::int64_t) const { return any(); }
  [[nodiscard]] bool waits_for(const SharedPrompt&) const { return !random_.one_in(4); }
  [[nodiscard]] bool may_join(const FormedBatch&) const { return random_.one_in(4); }

 private:
  [[nodiscard]] std::int64_t any() const { return static_cast<std::int64_t>(random_.next()); }
  mutable SimRandom random_;
};
static_assert(AccountingOrder<HostileOrder> && CacheAwareOrder<HostileOrder> && BatchingOrder<HostileOrder>);

KVPAGE_END_NAMESPACE
