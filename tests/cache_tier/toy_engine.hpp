/// \file ToyEngine: an engine whose "model" hashes what the pages hold, so that a stale, lost or foreign page changes the answer.
#pragma once

#include "cache_tier/tier_fixture.hpp"

#include <kvpage/cache/tier_extension.hpp>

#include <deque>
#include <random>

namespace kvpage_test {

/// What goes wrong while a request is served.
struct ToyFaults {
  bool drop_plan = false;          ///< the first plan is dropped after its demotions were reserved
  bool abort_before_run = false;   ///< the first step is sealed, and taken back before its transfers
  bool abort_after_run = false;    ///< ... or after them
};

struct ToyCounts {
  std::int64_t demoted = 0;
  std::int64_t promoted = 0;
  std::int64_t failed_loads = 0;
  std::int64_t failed_demotions = 0;
  std::int64_t short_loads = 0;  ///< loads that ended before their last block
  std::int64_t computed = 0;     ///< positions
};

/// Group 0 attends to everything, group 1 (if there is one) to a window. The value of a position in a group is a hash of its token and of
/// all values that it attends to, read from the pages.
template <class Hash, class Store>
class ToyEngine {
 public:
  using Allocator = kvpage::BlockAllocator<kvpage::PrefixIndex<Hash>>;
  using Tier = kvpage::OffloadTier<Store>;

  static typename Allocator::IndexOptions options(const Hash& hash) {
    typename Allocator::IndexOptions with{hash};
    with.portable_keys = true;
    return with;
  }

  ToyEngine(const kvpage::BlockAllocatorConfig& config, const Hash& hash, const kvpage::OffloadTierConfig& tier_config, Store store)
      : config_(config.with_defaults()), cache_(config, options(hash)), tier_(tier_config, std::move(store)),
        values_(static_cast<std::size_t>(config.num_blocks * config.block_size), 0xDEAD) {}

  Allocator& cache() { return cache_.get(); }
  Tier& tier() { return tier_.get(); }
  const ToyCounts& counts() const { return counts_; }

  /// The answer to a prompt, from an engine that keeps nothing.
  std::uint64_t expected(const Tokens& prompt) const {
    std::vector<std::vector<std::uint64_t>> values(static_cast<std::size_t>(config_.num_groups));
    for (std::size_t p = 0; p < prompt.size(); ++p) {
      for (std::size_t g = 0; g < values.size(); ++g) {
        values[g].push_back(value(static_cast<std::int64_t>(g), static_cast<std::int64_t>(p), prompt[p],
                                  [&](std::int64_t at) { return values[g][static_cast<std::size_t>(at)]; }));
      }
    }
    std::uint64_t answer = 0;
    for (const auto& group : values) answer = kvpage::detail::mix_bits(answer ^ group.back());
    return answer;
  }

  /// The answer to a prompt, with everything that device and tier still have.
  std::uint64_t serve(kvpage::NamespaceId name_space, const Tokens& prompt, const ToyFaults& faults = {}) {
    const kvpage::PrefixQuery query{.name_space = name_space, .tokens = prompt};
    if (faults.drop_plan || faults.abort_before_run || faults.abort_after_run) start(query, faults);
    const Started started = start(query, {});
    const auto length = static_cast<std::int64_t>(prompt.size());
    const std::int64_t first = std::min(started.num_tokens, length - 1);
    auto plan = cache_->begin();
    plan->grow(started.seq, length).value();
    const auto demotions = demote(*plan);
    const auto step = plan->seal().value();
    run_demotions(demotions);
    for (std::int64_t p = first; p < length; ++p) compute(started.seq, p, prompt[static_cast<std::size_t>(p)], started.num_tokens > p);
    std::uint64_t answer = 0;
    for (std::int64_t g = 0; g < config_.num_groups; ++g) answer = kvpage::detail::mix_bits(answer ^ slot(started.seq, g, length - 1));
    cache_->commit(step).value();
    cache_->publish(started.seq, {.tokens = prompt, .partial_tail = true}).value();
    auto end = cache_->begin();
    end->release(started.seq).value();
    end->commit().value();
    return answer;
  }

 private:
  struct Started {
    kvpage::SeqId seq{};
    std::int64_t num_tokens = 0;
  };
  using Demotions = std::vector<std::pair<kvpage::BlockId, std::uint32_t>>;

  template <class Read>
  std::uint64_t value(std::int64_t group, std::int64_t position, kvpage::TokenId token, Read&& read) const {
    const std::int64_t window = config_.window(group);
    std::uint64_t seen = token + 1;
    for (std::int64_t p = window == 0 ? 0 : std::max<std::int64_t>(0, position - window + 1); p < position; ++p) {
      seen = kvpage::detail::mix_bits(seen ^ read(p)) + static_cast<std::uint64_t>(p);
    }
    return kvpage::detail::mix_bits(seen);
  }
  std::uint64_t& slot(kvpage::SeqId seq, std::int64_t group, std::int64_t position) {
    const kvpage::BlockId block = cache_->table(seq, group).blocks[static_cast<std::size_t>(position / config_.block_size)];
    if (block == kvpage::kNoBlock) throw std::runtime_error{"the window group lacks a block that a query looks back at"};
    return values_[static_cast<std::size_t>(block.value * config_.block_size + position % config_.block_size)];
  }
  void compute(kvpage::SeqId seq, std::int64_t position, kvpage::TokenId token, bool query_only) {
    ++counts_.computed;
    for (std::int64_t g = 0; g < config_.num_groups && !query_only; ++g) {
      slot(seq, g, position) = value(g, position, token, [&](std::int64_t p) { return slot(seq, g, p); });
    }
  }
  std::span<std::byte> page(kvpage::BlockId block) {
    const auto size = static_cast<std::size_t>(config_.block_size);
    return std::as_writable_bytes(std::span{values_}.subspan(block.value * size, size));
  }

  template <class Plan>
  Demotions demote(const Plan& plan) {
    Demotions demotions;
    kvpage::demote_victims(tier_.get(), plan, [&](kvpage::BlockId block, std::uint32_t slot) { demotions.emplace_back(block, slot); });
    return demotions;
  }
  void run_demotions(const Demotions& demotions) {
    for (const auto& [block, slot] : demotions) ++(tier_->demote(slot, page(block)) ? counts_.demoted : counts_.failed_demotions);
  }

  /// A sequence with all cached tokens of the prompt, copied or loaded; none when a fault takes it back.
  Started start(const kvpage::PrefixQuery& query, const ToyFaults& faults) {
    kvpage::PrefixHit hit = cache_->match(query);
    std::vector<std::uint32_t> slots(64);
    const std::int64_t extra = kvpage::hold_extension(tier_.get(), cache_->index(), query, hit, slots);
    if (extra > 0) hit = hit.without_partial();
    auto plan = cache_->begin();
    const kvpage::SeqId seq = plan->create(query.name_space).value();
    const auto shared = plan->share(seq, hit).value();
    plan->grow(seq, shared.num_tokens + extra * config_.block_size).value();
    const Demotions demotions = demote(*plan);
    if (faults.drop_plan) {
      plan->abort();
      take_back(demotions, slots);
      return {};
    }
    const auto step = plan->seal().value();
    if (!faults.abort_before_run) {
      run_demotions(demotions);
      promote(seq, hit.num_blocks, slots);
      for (const kvpage::CopyOp& copy : cache_->copies(step)) {
        const auto bytes = static_cast<std::size_t>(copy.num_tokens) * sizeof(std::uint64_t);
        std::copy_n(page(copy.source).begin(), bytes, page(copy.target).begin());
      }
    }
    if (faults.abort_before_run || faults.abort_after_run) {
      cache_->abort(step).value();
      if (faults.abort_before_run) take_back(demotions, slots);
      return {};
    }
    cache_->commit(step).value();
    if (extra == 0) return {seq, shared.num_tokens};
    return keep_loaded(seq, query, hit, slots, extra);
  }

  void take_back(const Demotions& demotions, std::span<std::uint32_t> slots) {
    for (const auto& demotion : demotions) tier_->cancel(demotion.second).value();
    kvpage::release_slots(tier_.get(), slots);
  }
  void promote(kvpage::SeqId seq, std::size_t first_block, std::span<std::uint32_t> slots) {
    const auto groups = static_cast<std::size_t>(config_.num_groups);
    for (std::size_t k = 0; k < slots.size(); ++k) {
      if (slots[k] == kvpage::kNoTierSlot) continue;
      const kvpage::BlockId block = cache_->table(seq, static_cast<std::int64_t>(k % groups)).blocks[first_block + k / groups];
      const bool loaded = tier_->promote(slots[k], page(block)).has_value();
      ++(loaded ? counts_.promoted : counts_.failed_loads);
      if (!loaded) slots[k] = kvpage::kNoTierSlot;
    }
  }
  Started keep_loaded(kvpage::SeqId seq, const kvpage::PrefixQuery& query, const kvpage::PrefixHit& hit,
                      std::span<const std::uint32_t> slots, std::int64_t extra) {
    const std::int64_t usable = kvpage::usable_extension(cache_->index(), hit, slots);
    counts_.short_loads += usable < extra ? 1 : 0;
    const std::int64_t num_tokens = hit.num_tokens + usable * config_.block_size;
    auto cut = cache_->begin();
    cut->truncate(seq, num_tokens).value();
    for (std::int64_t g = 0; g < config_.num_groups; ++g) cut->release_before(seq, g, num_tokens).value();
    cut->commit().value();
    cache_->publish(seq, {.tokens = query.tokens.first(static_cast<std::size_t>(num_tokens))}).value();
    return {seq, num_tokens};
  }

  kvpage::BlockAllocatorConfig config_;
  AllocatorFixture<Allocator> cache_;
  TierFixture<Store> tier_;
  std::vector<std::uint64_t> values_;  // [num_blocks, block_size]
  ToyCounts counts_;
};

}  // namespace kvpage_test
