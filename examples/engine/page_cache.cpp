#include "engine/page_cache.hpp"

#include <algorithm>
#include <utility>

namespace kvpage::engine {
namespace {

PrefixIndexOptions<> index_options(const PageCacheOptions& options) {
  PrefixIndexOptions<> index;
  index.portable_keys = options.host_tier_bytes > 0;
  return index;
}

EvictionChoice eviction_of(const PageCacheOptions& options) {
  if (const auto choice = EvictionChoice::by_name(options.evict)) return *choice;
  throw_config_error("the eviction policy is not one of the known names", 0, std::ssize(EvictionChoice::kNames), "names");
}

BlockAllocatorConfig allocator_config(const LanguageModel& model, const PageCacheOptions& options) {
  BlockAllocatorConfig config{.num_blocks = model.pool_shape().num_blocks, .block_size = model.pool_shape().block_size,
                              .max_seqs = options.max_seqs, .num_groups = model.cache_groups().num_groups()};
  std::copy(model.cache_groups().window_tokens.begin(), model.cache_groups().window_tokens.end(), config.window_tokens.begin());
  const bool all_windows = std::all_of(config.window_tokens.begin(), config.window_tokens.begin() + config.num_groups,
                                       [](std::int64_t window) { return window > 0; });
  const std::int64_t entries = ceil_div(model.context_tokens(), config.block_size);
  config.max_blocks_per_seq = all_windows ? entries : std::min(entries, config.num_blocks);
  return config;
}

OffloadTierConfig tier_config(std::int64_t tier_bytes, std::int64_t page_bytes, std::int64_t block_size) {
  if (tier_bytes < page_bytes) throw_config_error("the host tier is smaller than one page", tier_bytes, page_bytes, "bytes");
  return {.num_slots = tier_bytes / page_bytes, .page_bytes = page_bytes, .block_size = block_size};
}

}  // namespace

std::int64_t host_tier_memory_bytes(std::int64_t tier_bytes, std::int64_t page_bytes, std::int64_t block_size) {
  if (tier_bytes == 0) return 0;
  using Tier = OffloadTier<MemoryTierStore>;
  const OffloadTierConfig tier = tier_config(tier_bytes, page_bytes, block_size);
  const auto table_bytes = static_cast<std::int64_t>(Tier::required_bytes(tier));
  return tier.num_slots * Tier::slot_bytes(tier) + table_bytes;
}

PageCache::PageCache(LanguageModel& model, const PageCacheOptions& options)
    : model_(model),
      options_(options),
      allocator_memory_(Allocator::required_bytes(allocator_config(model, options), index_options(options), eviction_of(options))),
      allocator_(allocator_config(model, options), allocator_memory_, index_options(options), eviction_of(options)) {
  const NamespaceField identity{NamespaceFieldType::kModel, model.cache_identity()};
  name_space_ = allocator_.intern({&identity, 1}).value();
  allocator_.events().counters_ = &counters_;
  allocator_.events().collect_new(options.on_new_page != nullptr ? model.pool_shape().num_blocks : 0);
  if (options.host_tier_bytes == 0) return;
  const OffloadTierConfig tier = tier_config(options.host_tier_bytes, model.page_bytes(), model.pool_shape().block_size);
  tier_pages_ = MappedMemory(tier.num_slots * Tier::slot_bytes(tier));
  tier_memory_.resize(Tier::required_bytes(tier));
  tier_ = std::make_unique<Tier>(tier, tier_memory_, MemoryTierStore{tier_pages_.span()});
  allocator_.use_tier(tier_.get());
}

TraceHeader PageCache::trace_header() const {
  TraceHeader header = TraceHeader::of(allocator_.config());
  header.page_bytes = model_.page_bytes();
  header.policy = options_.evict;
  return header;
}

PrefixQuery PageCache::query(std::span<const TokenId> prompt, std::int64_t max_tokens) const {
  return {.name_space = name_space_, .tokens = prompt, .max_tokens = options_.share_prefixes ? max_tokens : 0};
}

std::span<const PromotionOutcome> PageCache::begin_step(const BatchPlan& plan) {
  promotions_.clear();
  promotions_.reserve(plan.promotions.size());  // first: a promotion that was carried out is counted
  for (const BlockDemotion& demotion : plan.demotions) {
    if (tier_->demote(demotion.tier_slot, model_.fetch_page(demotion.block))) ++counters_.demoted;
  }
  for (const BlockId block : allocator_.events().new_blocks_) {
    options_.on_new_page(model_.fetch_page(block));
    model_.store_page(block);
  }
  allocator_.events().new_blocks_.clear();
  counters_.peak_used_blocks = std::max(counters_.peak_used_blocks, allocator_.capacity().used);
  for (const BlockPromotion& promotion : plan.promotions) {
    const bool arrived = tier_->promote(promotion.tier_slot, model_.fetch_page(promotion.block)).has_value();
    model_.store_page(promotion.block);
    ++(arrived ? counters_.promoted : counters_.failed_loads);
    promotions_.push_back(arrived ? PromotionOutcome::kArrived : PromotionOutcome::kFailed);
  }
  return promotions_;
}

void PageCache::settle(SeqId seq, std::span<const TokenId> tokens, bool ended) {
  if (options_.share_prefixes) {
    allocator_.publish(seq, {.tokens = tokens, .partial_tail = ended}).value();
  }
  if (!ended) return release_behind_windows(seq);
  auto transaction = allocator_.begin().value();
  transaction.release(seq).value();
  transaction.commit().value();
}

void PageCache::release_behind_windows(SeqId seq) {
  if (!model_.cache_groups().has_window()) return;
  auto transaction = allocator_.begin().value();
  const std::int64_t next_token = allocator_.num_tokens(seq);
  for (std::int64_t g = 0; g < allocator_.config().num_groups; ++g) transaction.release_before(seq, g, next_token).value();
  transaction.commit().value();
}

}  // namespace kvpage::engine
