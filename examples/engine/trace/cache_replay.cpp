#include "engine/trace/cache_replay.hpp"

#include "engine/policies/eviction_choice.hpp"

#include <kvpage/cache/block_allocator.hpp>
#include <kvpage/kv/plan_bytes.hpp>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace kvpage::engine {
namespace {

struct EvictionCounter {
  static constexpr bool kEnabled = true;
  std::int64_t evictions = 0;
  void on_event(const CacheEvent& event) noexcept { evictions += event.kind == CacheEventKind::kEvict ? 1 : 0; }
};

BlockAllocatorConfig allocator_config(const ReplayConfig& config, std::int64_t longest_tokens) {
  if (config.num_groups() > kMaxCacheGroups) {
    throw_config_error("a replay has at most 4 cache groups", config.num_groups(), kMaxCacheGroups, "groups");
  }
  BlockAllocatorConfig sizes{.num_blocks = config.num_blocks, .block_size = config.block_size, .max_seqs = 1};
  sizes.num_groups = config.num_groups();
  std::copy(config.window_tokens.begin(), config.window_tokens.end(), sizes.window_tokens.begin());
  // Where every group has a window, a sequence can be longer than its pool.
  const bool all_windows = config.has_window() && std::count(config.window_tokens.begin(), config.window_tokens.end(), 0) == 0;
  if (all_windows) sizes.max_blocks_per_seq = ceil_div(longest_tokens, config.block_size);
  return sizes;
}

/// One pool that requests run through.
class Replay {
 public:
  using Allocator = BlockAllocator<PrefixIndex<>, EvictionChoice, EvictionCounter>;

  Replay(const ReplayConfig& config, std::string_view policy, std::int64_t num_tenants, std::int64_t longest_tokens)
      : config_(config),
        sizes_(allocator_config(config, longest_tokens)),
        options_(index_options(config, num_tenants)),
        policy_(EvictionChoice::by_name(policy).value()),
        memory_(Allocator::required_bytes(sizes_, options_, policy_)),
        allocator_(sizes_, memory_, options_, policy_) {}

  void run(const ReplayRequest& r) {
    if (blocks_for(r, config_) > config_.num_blocks) {
      ++counts_.num_left_out;
      return;
    }
    allocator_.expire(r.request.t_ns).value();
    std::vector<TokenId> tokens = r.request.prompt_ids;
    tokens.insert(tokens.end(), r.output_ids.begin(), r.output_ids.end());
    auto step = allocator_.begin().value();
    const SeqId seq = start(step, r);
    while (true) {
      allocator_.commit(step.seal().value()).value();
      const std::int64_t num_tokens = allocator_.num_tokens(seq);
      publish(seq, std::span{tokens}.first(static_cast<std::size_t>(num_tokens)), r, false);
      if (config_.has_window()) release_behind_windows(seq, num_tokens);
      if (num_tokens == r.num_tokens()) break;
      step = allocator_.begin().value();
      grow(step, seq, r).value();
    }
    if (config_.partial_hits) publish(seq, tokens, r, true);
    step = allocator_.begin().value();
    step.release(seq).value();
    step.commit().value();
  }

  [[nodiscard]] ReplayCounts counts() {
    counts_.evictions = allocator_.events().evictions;
    return counts_;
  }

 private:
  /// A sequence with what the cache has of the prompt, and room for its first step.
  SeqId start(Allocator::Transaction& step, const ReplayRequest& r) {
    const NamespaceId tenant = tenant_of(r.request.tenant);
    const std::int64_t prompt = r.num_prompt_tokens();
    // Behind a window, the last token's own query looks one position further back than a hit of the whole prompt promises.
    const std::int64_t limit = prompt - (config_.has_window() ? 1 : 0);
    const PrefixHit hit = allocator_.match({.name_space = tenant, .tokens = r.request.prompt_ids, .max_tokens = limit});
    const SeqId seq = step.create(tenant).value();
    const Savepoint before = step.mark();
    std::int64_t cached = step.share(seq, hit).value().num_tokens;
    if (!grow(step, seq, r)) {
      // The source of a copy is held beside its target: a pool without a block to spare does without the copy.
      step.rollback_to(before);
      cached = step.share(seq, hit.without_partial()).value().num_tokens;
      grow(step, seq, r).value();
    }
    ++counts_.num_requests;
    counts_.prompt_tokens += prompt;
    counts_.cached_tokens += std::min(cached, prompt - 1);
    counts_.prompt_blocks += prompt / config_.block_size;
    counts_.hit_blocks += hit.num_blocks;
    return seq;
  }

  /// Room for the next step: with windows a part of the prompt, or a token of the answer. Without them nothing is given back in between,
  /// and one step does for all.
  CacheResult<void> grow(Allocator::Transaction& step, SeqId seq, const ReplayRequest& r) {
    if (!config_.has_window()) return step.grow(seq, r.num_tokens());
    const std::int64_t now = allocator_.num_tokens(seq), prompt = r.num_prompt_tokens();
    const std::int64_t more = allocator_.capacity().available() / sizes_.num_groups;
    const std::int64_t room_end = (ceil_div(now, config_.block_size) + more) * config_.block_size;
    return step.grow(seq, std::max(now + 1, std::min({prompt, now + config_.step_tokens, room_end})));
  }

  void publish(SeqId seq, std::span<const TokenId> tokens, const ReplayRequest& r, bool ended) {
    allocator_.publish(seq, {.tokens = tokens, .retention = retention(r.request), .partial_tail = ended}).value();
  }

  void release_behind_windows(SeqId seq, std::int64_t next_token) {
    auto step = allocator_.begin().value();
    for (std::int64_t g = 0; g < sizes_.num_groups; ++g) step.release_before(seq, g, next_token).value();
    step.commit().value();
  }

  static PrefixIndexOptions<> index_options(const ReplayConfig& config, std::int64_t num_tenants) {
    PrefixIndexOptions<> options{SipSecret::fixed(0x6b76706167650001, 0x7265706c61790002)};  // the same keys in every run
    options.max_namespaces = num_tenants + 1;
    options.namespace_bytes = (num_tenants + 1) * kMaxNamespaceFieldBytes;
    options.token_granule = config.partial_hits ? 1 : 0;
    return options;
  }

  NamespaceId tenant_of(const std::string& tenant) {
    if (tenant.empty()) return {};
    const auto [known, added] = tenants_.try_emplace(tenant, tenants_.size());
    if (added) {
      const auto bytes = std::as_bytes(std::span{&known->second, 1});
      const NamespaceField field{NamespaceFieldType::kUser, bytes};
      ids_.push_back(allocator_.intern({&field, 1}).value());
    }
    return ids_[known->second];
  }

  static Retention retention(const TraceRequest& r) {
    Retention wish;
    if (r.priority) wish.priority = static_cast<std::uint8_t>(*r.priority);
    if (r.ttl_ns > 0) wish.expires_at_ns = r.t_ns + r.ttl_ns;
    return wish;
  }

  ReplayConfig config_;
  BlockAllocatorConfig sizes_;
  PrefixIndexOptions<> options_;
  EvictionChoice policy_;
  std::vector<std::byte> memory_;
  Allocator allocator_;
  std::unordered_map<std::string, std::uint64_t> tenants_;
  std::vector<NamespaceId> ids_;
  ReplayCounts counts_;
};

}  // namespace

Expected<std::vector<ReplayRequest>, TraceError> read_requests(TraceReader& reader) {
  std::vector<ReplayRequest> requests;
  std::unordered_map<std::string, std::size_t> by_id;
  TraceLine line;
  while (true) {
    const auto more = reader.next(line);
    if (!more) return Unexpected{more.error()};
    if (!*more) return requests;
    if (line.kind == "submit") {
      auto request = reader.request(line);
      if (!request) return Unexpected{request.error()};
      if (!by_id.emplace(request->id, requests.size()).second) {
        return Unexpected{reader.error(line, "the request \"" + request->id + "\" was submitted before")};
      }
      requests.push_back({std::move(*request), {}});
    } else if (line.kind == "finish") {
      auto end = reader.finish(line);
      if (!end) return Unexpected{end.error()};
      const auto found = by_id.find(end->id);
      if (found == by_id.end()) return Unexpected{reader.error(line, "the request \"" + end->id + "\" was never submitted")};
      if (end->answer == 0) requests[found->second].output_ids = std::move(end->output_ids);
    }
  }
}

std::int64_t blocks_for(const ReplayRequest& request, const ReplayConfig& config) {
  const std::int64_t num_tokens = request.num_tokens();
  if (config.window_tokens.empty()) return ceil_div(num_tokens, config.block_size);
  return blocks_per_seq(config.window_tokens, config.block_size, {.context_tokens = num_tokens});
}

ReplayCounts replay_requests(std::span<const ReplayRequest> requests, const ReplayConfig& config, std::string_view policy) {
  std::unordered_set<std::string_view> tenants;
  std::int64_t longest_tokens = 1;
  for (const ReplayRequest& r : requests) {
    tenants.insert(r.request.tenant);
    longest_tokens = std::max(longest_tokens, r.num_tokens());
  }
  Replay replay{config, policy, static_cast<std::int64_t>(tenants.size()), longest_tokens};
  for (const ReplayRequest& r : requests) replay.run(r);
  return replay.counts();
}

}  // namespace kvpage::engine
