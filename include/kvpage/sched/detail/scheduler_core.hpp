/// \file SchedulerCore: the state of a scheduler beside what its user brings: cache, policies and environment.
#pragma once

#include <kvpage/cache/cache_refusal.hpp>
#include <kvpage/cache/prefix_hit.hpp>
#include <kvpage/sched/detail/scheduler_state.hpp>
#include <kvpage/sched/scheduler_cache.hpp>
#include <kvpage/sched/scheduler_env.hpp>
#include <kvpage/sched/scheduler_policies.hpp>

#include <optional>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

template <SchedulableCache CacheType, SchedulerPolicySet PoliciesType, SchedulerEnv EnvType>
struct SchedulerCore : SchedulerState {
  using Cache = CacheType;
  using Policies = PoliciesType;
  using Order = std::remove_cvref_t<decltype(PoliciesType::order)>;
  using Transaction = typename CacheType::Transaction;
  static constexpr bool kIndexed = IndexedCache<CacheType>;
  static constexpr bool kTiered = TieredCache<CacheType>;

  CacheType* cache;
  EnvType* env;
  Policies policies;
  std::optional<Transaction> txn;  ///< of the open plan

  SchedulerCore(const SchedulerConfig& limits, CacheType& kv_cache, const Policies& with, EnvType& environment)
      : SchedulerState(limits, kv_cache.config(), environment.memory()), cache(&kv_cache), env(&environment), policies(with) {}

  std::int64_t now() {
    last_now_ns = std::max<std::int64_t>(last_now_ns, env->now_ns());
    return last_now_ns;
  }
};

template <class T>
inline constexpr bool kIsSchedulerCore = false;
template <class Cache, class Policies, class Env>
inline constexpr bool kIsSchedulerCore<SchedulerCore<Cache, Policies, Env>> = true;

/// What the phases of a step work on.
template <class T>
concept SchedulerCoreType = kIsSchedulerCore<T>;

/// Full blocks, or with `partial_tail` all tokens of an answer that ends, go to the prefix index; it may have no room for them.
template <SchedulerCoreType Core>
void publish(Core& core, Request& r, bool partial_tail = false) {
  if constexpr (Core::kIndexed) {
    const std::int64_t full = r.num_stored / core.block_size * core.block_size;
    if (!core.config.share_prefixes || (!partial_tail && full <= r.num_published)) return;
    PublishArgs args{.tokens = std::span<const TokenId>{r.tokens}.first(static_cast<std::size_t>(r.num_stored))};
    args.retention.recompute_ns_per_block = core.block_size * StepCosts{core.env->costs()}.prefill_ns_per_token;
    args.partial_tail = partial_tail;
    if (core.cache->publish(r.seq, args)) r.num_published = full;
  }
}

}  // namespace detail
KVPAGE_END_NAMESPACE
