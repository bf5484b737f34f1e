#include "engine/trace/cache_replay.hpp"

#include "engine/eviction_choice.hpp"

#include <kvpage/cache/block_allocator.hpp>

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

/// One pool that requests run through.
class Replay {
 public:
  using Allocator = BlockAllocator<PrefixIndex<>, EvictionChoice, EvictionCounter>;

  Replay(const ReplayConfig& config, std::string_view policy, std::int64_t num_tenants)
      : config_(config),
        sizes_{.num_blocks = config.num_blocks, .block_size = config.block_size, .max_seqs = 1},
        options_(index_options(config, num_tenants)),
        policy_(EvictionChoice::by_name(policy).value()),
        memory_(Allocator::required_bytes(sizes_, options_, policy_)),
        allocator_(sizes_, memory_, options_, policy_) {}

  void run(const ReplayRequest& r) {
    if (ceil_div(r.num_tokens(), config_.block_size) > config_.num_blocks) {
      ++counts_.num_left_out;
      return;
    }
    allocator_.expire(r.request.t_ns).value();
    std::vector<TokenId> tokens = r.request.prompt_ids;
    const NamespaceId tenant = tenant_of(r.request.tenant);
    const PrefixHit hit = allocator_.match({.name_space = tenant, .tokens = tokens});
    count(r, hit);
    tokens.insert(tokens.end(), r.output_ids.begin(), r.output_ids.end());
    auto txn = allocator_.begin();
    const SeqId seq = txn->create(tenant).value();
    static_cast<void>(txn->share(seq, hit).value());
    txn->grow(seq, r.num_tokens()).value();
    allocator_.commit(txn->seal().value()).value();
    allocator_.publish(seq, {.tokens = tokens, .retention = retention(r.request), .partial_tail = config_.partial_hits}).value();
    auto end = allocator_.begin();
    end->release(seq).value();
    end->commit().value();
  }

  [[nodiscard]] ReplayCounts counts() {
    counts_.evictions = allocator_.events().evictions;
    return counts_;
  }

 private:
  static PrefixIndexOptions<> index_options(const ReplayConfig& config, std::int64_t num_tenants) {
    PrefixIndexOptions<> options{SipSecret{0x6b76706167650001, 0x7265706c61790002}};  // the same keys in every run
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

  void count(const ReplayRequest& r, const PrefixHit& hit) {
    ++counts_.num_requests;
    counts_.prompt_tokens += r.num_prompt_tokens();
    counts_.cached_tokens += hit.num_computed(r.num_prompt_tokens());
    counts_.prompt_blocks += r.num_prompt_tokens() / config_.block_size;
    counts_.hit_blocks += hit.num_blocks;
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
      requests[found->second].output_ids = std::move(end->output_ids);
    }
  }
}

ReplayCounts replay_requests(std::span<const ReplayRequest> requests, const ReplayConfig& config, std::string_view policy) {
  std::unordered_set<std::string_view> tenants;
  for (const ReplayRequest& r : requests) tenants.insert(r.request.tenant);
  Replay replay{config, policy, static_cast<std::int64_t>(tenants.size())};
  for (const ReplayRequest& r : requests) replay.run(r);
  return replay.counts();
}

}  // namespace kvpage::engine
