/// \file Replays with cache groups: a block costs a page per group, and what lies behind a window is given back as the engine does.
#include "engine/policies/eviction_choice.hpp"
#include "engine/trace/trace_generator.hpp"

#include "support/catch.hpp"

#include <kvpage/cache/block_allocator.hpp>

using namespace kvpage;
using namespace kvpage::engine;

namespace {

struct EvictionCounter {
  static constexpr bool kEnabled = true;
  std::int64_t evictions = 0;
  void on_event(const CacheEvent& event) noexcept { evictions += event.kind == CacheEventKind::kEvict ? 1 : 0; }
};

/// An engine without a model: steps of a prompt, then one token per step, with pages given back after each.
class TokenByToken {
 public:
  using Allocator = BlockAllocator<PrefixIndex<>, EvictionChoice, EvictionCounter>;

  TokenByToken(const BlockAllocatorConfig& sizes, std::int64_t step_tokens, std::string_view policy)
      : step_tokens_(step_tokens),
        policy_(EvictionChoice::by_name(policy).value()),
        memory_(Allocator::required_bytes(sizes, options_, policy_)),
        allocator_(sizes, memory_, options_, policy_) {}

  void serve(const ReplayRequest& r) {
    std::vector<TokenId> tokens = r.request.prompt_ids;
    tokens.insert(tokens.end(), r.output_ids.begin(), r.output_ids.end());
    const std::int64_t prompt = r.num_prompt_tokens();
    auto txn = allocator_.begin().value();
    const SeqId seq = txn.create().value();
    const PrefixHit hit = allocator_.match({.tokens = r.request.prompt_ids, .max_tokens = prompt - 1});
    const Savepoint before = txn.mark();
    std::int64_t now = txn.share(seq, hit).value().num_tokens;
    if (room_end(seq) <= now) {
      txn.rollback_to(before);
      now = txn.share(seq, hit.without_partial()).value().num_tokens;
    }
    counts.cached_tokens += now;
    counts.hit_blocks += hit.num_blocks;
    while (true) {
      now = std::min({now < prompt ? prompt : now + 1, now + step_tokens_, room_end(seq)});
      txn.grow(seq, now).value();
      allocator_.commit(txn.seal().value()).value();
      publish(seq, tokens, now, false);
      txn = allocator_.begin().value();
      for (std::int64_t g = 0; g < allocator_.config().num_groups; ++g) txn.release_before(seq, g, now).value();
      txn.commit().value();
      allocator_.check_invariants();
      if (now == r.num_tokens()) break;
      txn = allocator_.begin().value();
    }
    publish(seq, tokens, now, true);
    txn = allocator_.begin().value();
    txn.release(seq).value();
    txn.commit().value();
    counts.evictions = allocator_.events().evictions;
  }

  ReplayCounts counts;

 private:
  void publish(SeqId seq, const std::vector<TokenId>& tokens, std::int64_t count, bool ended) {
    allocator_.publish(seq, {.tokens = std::span(tokens).first(static_cast<std::size_t>(count)), .partial_tail = ended}).value();
  }
  std::int64_t room_end(SeqId seq) const {
    const std::int64_t entries = ceil_div(allocator_.num_tokens(seq), allocator_.config().block_size);
    return (entries + allocator_.capacity().available() / allocator_.config().num_groups) * allocator_.config().block_size;
  }

  std::int64_t step_tokens_;
  // The replay's: what ARC remembers depends on keys.
  PrefixIndexOptions<> options_{SipSecret::fixed(0x6b76706167650001, 0x7265706c61790002)};
  EvictionChoice policy_;
  std::vector<std::byte> memory_;
  Allocator allocator_;
};

ReplayRequest request(const std::string& id, std::vector<TokenId> prompt) {
  ReplayRequest r;
  r.request.id = id, r.request.prompt_ids = std::move(prompt);
  return r;
}

std::vector<TokenId> from(TokenId first, std::size_t count) {
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < count; ++i) ids.push_back(first + static_cast<TokenId>(i));
  return ids;
}

}  // namespace

TEST_CASE("trace.replay.a_partial_hit_in_a_pool_of_exactly_the_request_goes_without_its_copy", "[trace]") {
  std::vector<TokenId> other = from(0, 8);
  for (const TokenId id : from(100, 56)) other.push_back(id);
  const std::vector<ReplayRequest> requests{request("a", from(0, 64)), request("b", other)};
  for (const std::string_view policy : EvictionChoice::kNames) {
    INFO(policy);
    const auto run = [&](std::int64_t num_blocks) {
      return replay_requests(requests, {.num_blocks = num_blocks, .partial_hits = true}, policy);
    };
    CHECK(run(4).num_requests == 2);
    CHECK(run(4).cached_tokens == 0);
    CHECK(run(5).cached_tokens == 8);  // room for the copy and its source
  }
}

TEST_CASE("trace.replay.windows_give_back_what_lies_behind_them", "[trace]") {
  const std::vector<ReplayRequest> requests{request("a", from(0, 1600))};
  const auto left_out = [&](const std::vector<std::int64_t>& windows, std::int64_t num_blocks) {
    return replay_requests(requests, {.num_blocks = num_blocks, .window_tokens = windows}, "lru").num_left_out;
  };
  CHECK(left_out({}, 100) == 0);
  CHECK(left_out({0}, 99) == 1);
  CHECK(left_out({0, 0}, 200) == 0);  // a page per group and block
  CHECK(left_out({0, 0}, 199) == 1);
  CHECK(left_out({64}, 6) == 0);  // the 65 tokens that one more may need can begin anywhere in a page
  CHECK(left_out({64}, 5) == 1);
  CHECK(left_out({0, 64, 64}, 112) == 0);
  CHECK(left_out({0, 64, 64}, 111) == 1);
  CHECK_THROWS_AS(left_out({0, 1, 2, 3, 4}, 600), ConfigError);
}

TEST_CASE("trace.replay.windows_count_what_an_engine_counts_token_by_token", "[trace]") {
  const auto requests = generate_requests("chat", {.seed = 9, .num_requests = 40});
  std::int64_t longest = 0, evictions = 0, hits = 0;
  for (const ReplayRequest& r : requests) longest = std::max(longest, r.num_tokens());
  for (const std::vector<std::int64_t>& windows : {std::vector<std::int64_t>{64}, {0, 64}, {0, 256, 256}}) {
    ReplayConfig config{.block_size = 16, .partial_hits = true, .window_tokens = windows, .step_tokens = 100};
    for (const ReplayRequest& r : requests) config.num_blocks = std::max(config.num_blocks, blocks_for(r, config));
    const std::int64_t smallest = config.num_blocks;
    for (const std::int64_t num_blocks : {smallest, smallest + 7, 2 * smallest}) {
      config.num_blocks = num_blocks;
      BlockAllocatorConfig sizes{.num_blocks = num_blocks, .max_seqs = 1, .num_groups = config.num_groups()};
      std::copy(windows.begin(), windows.end(), sizes.window_tokens.begin());
      if (windows.front() > 0) sizes.max_blocks_per_seq = ceil_div(longest, 16);
      for (const std::string_view policy : EvictionChoice::kNames) {
        INFO(windows.size() << " groups, " << num_blocks << " blocks, " << policy);
        TokenByToken engine{sizes, config.step_tokens, policy};
        for (const ReplayRequest& r : requests) engine.serve(r);
        const ReplayCounts counts = replay_requests(requests, config, policy);
        CHECK(counts.num_left_out == 0);
        CHECK(counts.cached_tokens == engine.counts.cached_tokens);
        CHECK(counts.hit_blocks == engine.counts.hit_blocks);
        CHECK(counts.evictions == engine.counts.evictions);
        evictions += counts.evictions, hits += counts.hit_blocks;
      }
    }
  }
  CHECK(evictions > 1000);
  CHECK(hits > 1000);
}
