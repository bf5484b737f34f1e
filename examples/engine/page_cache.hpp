/// \file PageCache: the pages of one model, shared by prefixes: block allocator, eviction, host tier, and what they did.
#pragma once

#include "engine/backend/mapped_memory.hpp"
#include "engine/model/language_model.hpp"
#include "engine/policies/eviction_choice.hpp"
#include "engine/trace/cache_trace.hpp"

#include <kvpage/cache/block_allocator.hpp>
#include <kvpage/cache/tiered_allocator.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kvpage::engine {

/// How pages are shared and reused.
struct PageCacheOptions {
  std::string evict{EvictionChoice::kNames.front()};  ///< one of EvictionChoice::kNames
  bool share_prefixes = true;
  std::int64_t host_tier_bytes = 0;  ///< memory for evicted pages; 0 = none
  std::int64_t max_seqs = 1;
  /// For tests: gets each page that a step takes for new content, once its old content is saved and before anything is written.
  std::function<void(std::span<std::byte> page)> on_new_page{};
};

/// What happened to pages since the cache was made.
struct CacheCounters {
  std::int64_t copies = 0;           ///< pages of which a part was copied instead of computed
  std::int64_t evictions = 0;        ///< cached pages that gave way to new content
  std::int64_t demoted = 0;          ///< pages saved in the host tier; those of all groups of a victim
  std::int64_t promoted = 0;         ///< pages brought back from it for the prompt that needs them
  std::int64_t failed_loads = 0;     ///< pages that could not be brought back, or came back damaged
  std::int64_t peak_used_blocks = 0;
};

/// Memory of a host tier that may take `tier_bytes` for pages, with its table; 0 = no tier.
/// Errors: ConfigError when it holds no page, or more than a tier can number.
std::int64_t host_tier_memory_bytes(std::int64_t tier_bytes, std::int64_t page_bytes, std::int64_t block_size);

/// The sink of the allocator's events: counts, hands on to a trace, and remembers new pages if asked.
class PageEvents {
 public:
  static constexpr bool kEnabled = true;

  void on_event(const CacheEvent& event) {
    if (event.kind == CacheEventKind::kEvict) ++counters_->evictions;
    if (event.kind == CacheEventKind::kCopy) ++counters_->copies;
    if (event.kind == CacheEventKind::kAlloc && collect_new_) new_blocks_.push_back(event.block);
    trace_.on_event(event);
  }

 private:
  friend class PageCache;

  /// New blocks are remembered from now on, if there are any: an allocator at work must find room for them.
  void collect_new(std::int64_t num_blocks) {
    collect_new_ = num_blocks > 0;
    new_blocks_.reserve(static_cast<std::size_t>(num_blocks));
  }

  CacheCounters* counters_ = nullptr;
  bool collect_new_ = false;
  std::vector<BlockId> new_blocks_;  // of the newest sealed step
  CacheTrace trace_;
};

/// Owns everything but the pages' bytes, which belong to the model. A scheduler plans with `allocator()`; what it has sealed is begun with
/// `begin_step`.
/// Requires: the model outlives it; one cache per model. Threads: one owner.
class PageCache {
 public:
  using Tier = OffloadTier<MemoryTierStore>;
  using Allocator = TieredAllocator<BlockAllocator<PrefixIndex<>, EvictionChoice, PageEvents>, Tier>;

  /// Errors: ConfigError for an unknown policy or a host tier that holds no page.
  PageCache(LanguageModel& model, const PageCacheOptions& options);
  PageCache(const PageCache&) = delete;
  PageCache& operator=(const PageCache&) = delete;

  [[nodiscard]] Allocator& allocator() noexcept { return allocator_; }
  [[nodiscard]] const Allocator& allocator() const noexcept { return allocator_; }
  [[nodiscard]] NamespaceId name_space() const noexcept { return name_space_; }
  [[nodiscard]] const CacheCounters& counters() const noexcept { return counters_; }

  /// What the pool has of a prompt, up to `max_tokens`; nothing when prefixes are not shared.
  [[nodiscard]] PrefixQuery query(std::span<const TokenId> prompt, std::int64_t max_tokens) const;
  /// Carries out the demotions and promotions of a plan that was just sealed. A page that cannot be saved is lost to the tier, nothing
  /// else. Returns how the promotions went; valid until the next call. Errors: std::bad_alloc; then nothing was carried out.
  std::span<const PromotionOutcome> begin_step(const BatchPlan& plan);
  /// Without a scheduler: makes committed tokens findable, and gives back pages behind sliding windows. `ended` = no more tokens come.
  void settle(SeqId seq, std::span<const TokenId> tokens, bool ended);

  /// The bytes of all pages in the host tier, for tests that damage them. Empty without a tier.
  [[nodiscard]] std::span<std::byte> host_tier_pages() noexcept { return tier_pages_.span(); }

  /// Records events from now on; null = no more. Requires: the recorder outlives the cache or the next call.
  void record_into(TraceRecorder* recorder) noexcept { allocator_.events().trace_.record_into(recorder); }
  /// The first line of such a trace.
  [[nodiscard]] TraceHeader trace_header() const;

 private:
  void release_behind_windows(SeqId seq);

  LanguageModel& model_;
  PageCacheOptions options_;
  std::vector<std::byte> allocator_memory_;
  Allocator allocator_;
  NamespaceId name_space_{};
  MappedMemory tier_pages_;
  std::vector<std::byte> tier_memory_;
  std::unique_ptr<Tier> tier_;
  std::vector<PromotionOutcome> promotions_;
  CacheCounters counters_;
};

}  // namespace kvpage::engine
