#include "engine/trace/cache_replay.hpp"

#include <kvpage/base/checked.hpp>
#include <kvpage/base/error.hpp>

#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>
#include <unordered_map>

namespace kvpage::engine {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

/// A different number for every different prefix block, found by content.
class BlockNames {
 public:
  explicit BlockNames(std::int64_t block_size) : block_size_(static_cast<std::size_t>(block_size)) {}

  /// The full blocks of prompt and answer.
  std::vector<std::int64_t> of(const ReplayRequest& r) {
    std::vector<TokenId> tokens = r.request.prompt_ids;
    tokens.insert(tokens.end(), r.output_ids.begin(), r.output_ids.end());
    std::vector<std::int64_t> names;
    std::string key = "t" + r.request.tenant;
    for (std::size_t i = 0; i + block_size_ <= tokens.size(); i += block_size_) {
      key.append(reinterpret_cast<const char*>(tokens.data() + i), block_size_ * sizeof(TokenId));
      names.push_back(names_.try_emplace(key, static_cast<std::int64_t>(names_.size())).first->second);
      key = "b" + std::to_string(names.back()) + ":";
    }
    return names;
  }
  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(names_.size()); }

 private:
  std::size_t block_size_;
  std::unordered_map<std::string, std::int64_t> names_;
};

/// A cached block: the next request that needs it, then its depth, so that what builds on a block goes before it.
using Candidate = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

class Foresight {
 public:
  Foresight(std::span<const ReplayRequest> requests, const ReplayConfig& config) : config_(config), block_names_(config.block_size) {
    for (const ReplayRequest& r : requests) {
      const bool fits = blocks_for(r, config) <= config.num_blocks;
      names_.push_back(fits ? block_names_.of(r) : std::vector<std::int64_t>{});
      counts_.num_left_out += fits ? 0 : 1;
    }
    next_use_.resize(names_.size());
    std::vector<std::int64_t> next(static_cast<std::size_t>(block_names_.size()), kNever);
    for (std::size_t i = names_.size(); i-- > 0;) {
      for (const std::int64_t name : names_[i]) {
        next_use_[i].push_back(std::exchange(next[static_cast<std::size_t>(name)], static_cast<std::int64_t>(i)));
      }
    }
    needed_at_.assign(next.size(), kNever);
    cached_.assign(next.size(), false);
  }

  ReplayCounts run(std::span<const ReplayRequest> requests) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (blocks_for(requests[i], config_) <= config_.num_blocks) serve(requests[i], i);
    }
    return counts_;
  }

 private:
  void serve(const ReplayRequest& r, std::size_t i) {
    const std::vector<std::int64_t>& names = names_[i];
    const std::int64_t prompt_blocks = r.num_prompt_tokens() / config_.block_size;
    std::int64_t hits = 0;
    while (hits < prompt_blocks && cached_[at(names, hits)]) ++hits;
    ++counts_.num_requests;
    counts_.prompt_tokens += r.num_prompt_tokens();
    counts_.prompt_blocks += prompt_blocks;
    counts_.hit_blocks += hits;
    counts_.cached_tokens += std::min(hits * config_.block_size, r.num_prompt_tokens() - 1);
    std::int64_t missing = ceil_div(r.num_tokens(), config_.block_size) - static_cast<std::int64_t>(names.size());
    for (std::size_t d = 0; d < names.size(); ++d) {
      missing += cached_[at(names, static_cast<std::int64_t>(d))] ? 0 : 1;
      needed_at_[at(names, static_cast<std::int64_t>(d))] = kInUse;
    }
    while (num_cached_ + missing > config_.num_blocks) evict();
    for (std::size_t d = 0; d < names.size(); ++d) enter(names[d], next_use_[i][d], static_cast<std::int64_t>(d));
  }

  static std::size_t at(const std::vector<std::int64_t>& names, std::int64_t d) {
    return static_cast<std::size_t>(names[static_cast<std::size_t>(d)]);
  }

  void enter(std::int64_t name, std::int64_t next_use, std::int64_t depth) {
    const auto n = static_cast<std::size_t>(name);
    if (!cached_[n]) cached_[n] = true, ++num_cached_;
    needed_at_[n] = next_use;
    candidates_.emplace(next_use, depth, name);
  }

  void evict() {
    while (true) {
      const auto [next_use, depth, name] = candidates_.top();
      candidates_.pop();
      const auto n = static_cast<std::size_t>(name);
      if (!cached_[n] || needed_at_[n] != next_use) continue;  // used since it was entered
      cached_[n] = false;
      --num_cached_;
      ++counts_.evictions;
      return;
    }
  }

  static constexpr std::int64_t kInUse = -1;

  ReplayConfig config_;
  BlockNames block_names_;
  std::vector<std::vector<std::int64_t>> names_;
  std::vector<std::vector<std::int64_t>> next_use_;
  std::vector<std::int64_t> needed_at_;
  std::vector<bool> cached_;
  std::priority_queue<Candidate> candidates_;
  std::int64_t num_cached_ = 0;
  ReplayCounts counts_;
};

}  // namespace

ReplayCounts replay_with_foresight(std::span<const ReplayRequest> requests, const ReplayConfig& config) {
  KVPAGE_ASSERT(config.one_full_group(), "Belady's rule is the best for one group of full attention only");
  return Foresight{requests, config}.run(requests);
}

std::int64_t blocks_for_everything(std::span<const ReplayRequest> requests, std::int64_t block_size) {
  BlockNames names{block_size};
  for (const ReplayRequest& r : requests) static_cast<void>(names.of(r));
  return names.size() + 1;
}

}  // namespace kvpage::engine
