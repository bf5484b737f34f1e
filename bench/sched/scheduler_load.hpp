/// \file SchedulerLoad: a scheduler and its cache without a model, kept under a load of one kind.
#pragma once

#include "tools/simulator/sim_config.hpp"

#include <kvpage/cache/block_allocator.hpp>
#include <kvpage/sched/any_policies.hpp>
#include <kvpage/sched/continuous_scheduler.hpp>

#include <cstdlib>

namespace kvpage_bench {

using namespace kvpage;

/// What requests look like, and how much room there is.
struct LoadShape {
  std::int64_t max_seqs = 256;
  std::int64_t num_blocks = 0;           ///< 0: everybody fits
  std::int64_t budget_tokens = 8192;
  std::int64_t min_own = 128, max_own = 128;  ///< tokens that a prompt has for itself, drawn from this range
  std::int64_t shared_tokens = 0;        ///< at its start, the same for every `num_families`-th request
  std::int64_t num_families = 16;
  std::int64_t min_new = 512, max_new = 512;  ///< tokens of an answer, drawn from this range
  std::int64_t num_tenants = 1000;

  [[nodiscard]] std::int64_t blocks_per_seq() const noexcept { return (shared_tokens + max_own + max_new) / 16 + 2; }
};

/// Environment of a scheduler whose steps take 20 ms.
struct LoadClock {
  std::int64_t time_ns = 0;
  [[nodiscard]] std::int64_t now_ns() const noexcept { return time_ns; }
  [[nodiscard]] std::uint64_t draw_seed() const noexcept { return 1; }
  [[nodiscard]] std::pmr::memory_resource* memory() const noexcept { return std::pmr::get_default_resource(); }
  [[nodiscard]] StepCosts costs() const noexcept { return {}; }
  void on_event(const RequestEvent&) noexcept {}
};

class SchedulerLoad {
 public:
  using Cache = BlockAllocator<>;
  using Policies = SchedulerPolicies<AnyOrder, AnyAdmission>;

  SchedulerLoad(const LoadShape& shape, const AnyOrder& order)
      : shape_(shape),
        pool_(pool_of(shape)),
        memory_(Cache::required_bytes(pool_, options())),
        cache_(pool_, memory_, options()),
        scheduler_({.budget_tokens = shape.budget_tokens, .max_seqs = shape.max_seqs, .max_waiting = 1 << 20}, cache_,
                   {order, AnyAdmission{}, {}}, clock_) {}

  /// A request with everything an order may look at: priority, tenant, deadline, lengths.
  void submit() { submit(shape_.min_new + draw(shape_.max_new - shape_.min_new + 1)); }

  void submit(std::int64_t max_new_tokens) {
    prompt_.resize(static_cast<std::size_t>(shape_.shared_tokens + shape_.min_own + draw(shape_.max_own - shape_.min_own + 1)));
    const std::int64_t family = static_cast<std::int64_t>(next_id_) % shape_.num_families;
    for (std::int64_t i = 0; i < std::ssize(prompt_); ++i) {
      const std::int64_t token = i < shape_.shared_tokens ? family * 7919 + i * 31 : draw(50'000);
      prompt_[static_cast<std::size_t>(i)] = static_cast<TokenId>(token % 50'000);
    }
    const RequestSpec spec{.id = RequestId{next_id_++},
                           .prompt = prompt_,
                           .max_new_tokens = max_new_tokens,
                           .priority = draw(4),
                           .tenant = static_cast<std::uint32_t>(draw(shape_.num_tenants)),
                           .finish_by_ns = clock_.time_ns + (1000 + draw(1000)) * 1'000'000'000};
    if (!scheduler_.submit(spec)) std::abort();
  }
  /// Submits until `num_waiting` wait.
  void fill_queue(std::int64_t num_waiting) {
    while (scheduler_.num_waiting() < num_waiting) submit();
  }

  void step() {
    const BatchPlan& batch = scheduler_.plan();
    if (!scheduler_.seal()) std::abort();
    results_.resize(batch.samples.size());
    for (SampleResult& result : results_) result.token = static_cast<TokenId>(++last_token_ % 50'000);
    scheduler_.commit(results_);
    clock_.time_ns += 20'000'000;
  }

  [[nodiscard]] std::int64_t num_running() const noexcept { return scheduler_.num_running(); }
  [[nodiscard]] std::int64_t num_requests() const noexcept { return scheduler_.num_requests(); }
  [[nodiscard]] const SchedulerStats& stats() const noexcept { return scheduler_.stats(); }

 private:
  static Cache::IndexOptions options() { return Cache::IndexOptions{SipSecret::fixed(1, 2)}; }
  static BlockAllocatorConfig pool_of(const LoadShape& shape) {
    const std::int64_t all = shape.max_seqs * shape.blocks_per_seq();
    return {.num_blocks = shape.num_blocks > 0 ? shape.num_blocks : all, .block_size = 16, .max_seqs = shape.max_seqs,
            .max_blocks_per_seq = shape.blocks_per_seq()};
  }
  std::int64_t draw(std::int64_t count) { return static_cast<std::int64_t>(random_.next() % static_cast<std::uint64_t>(count)); }

  LoadShape shape_;
  BlockAllocatorConfig pool_;
  std::vector<std::byte> memory_;
  LoadClock clock_;
  Cache cache_;
  ContinuousScheduler<Cache, Policies, LoadClock> scheduler_;
  SimRandom random_{1};
  std::vector<TokenId> prompt_;
  std::vector<SampleResult> results_;
  std::uint64_t next_id_ = 0;
  std::uint64_t last_token_ = 0;
};

}  // namespace kvpage_bench
