/// \file Loads and observations that the suites of the policies share.
#pragma once

#include "sched/sched_fixture.hpp"

#include "02_custom_policy/aged_shortest.hpp"
#include "02_custom_policy/least_to_compute.hpp"
#include "02_custom_policy/weighted_share.hpp"

#include <random>
#include <set>

namespace kvpage_test {

inline Policies with_order(const kvpage::AnyOrder& order) { return {order, kvpage::AnyAdmission{kvpage::ReserveChunk{}}, {}}; }
inline Policies with_admission(const kvpage::AnyAdmission::Kinds& admission) { return {{}, kvpage::AnyAdmission{admission}, {}}; }

/// One request of a mixed load.
struct MixedRequest {
  Tokens prompt;
  std::int64_t max_new = 1;
  kvpage::RequestSpec spec{};
};

inline std::vector<MixedRequest> mixed_requests(std::uint64_t seed, std::size_t count) {
  std::mt19937_64 rng{seed};
  std::vector<MixedRequest> requests(count);
  for (MixedRequest& r : requests) {
    r.prompt = tokens_from(static_cast<kvpage::TokenId>(rng() % 6), 1 + rng() % 30);
    r.max_new = 1 + static_cast<std::int64_t>(rng() % 9);
    r.spec = {.priority = static_cast<std::int64_t>(rng() % 4),
              .tenant = static_cast<std::uint32_t>(rng() % 3),
              .finish_by_ns = rng() % 2 == 0 ? 0 : 1'000'000'000'000 + static_cast<std::int64_t>(rng() % 1000)};
  }
  return requests;
}

/// Plans, looks, seals and commits until nothing is left. `look()` sees the open plan.
template <class Look>
void run_looking(SchedFixture& f, Look&& look) {
  while (f.plan()) {
    CHECK(f.scheduler.leader_advanced());
    look();
    f.seal();
    f.commit();
    f.env.time_ns += 1'000'000;
  }
  CHECK(f.scheduler.num_requests() == 0);
  CHECK(f.cache.capacity().available() == f.cache.capacity().num_blocks);
}

/// Submits one request per millisecond, a third of them between steps, and runs to the end; every text is checked.
template <class Look>
void run_mixed(SchedFixture& f, const std::vector<MixedRequest>& requests, std::uint64_t seed, Look&& look) {
  std::mt19937_64 rng{seed};
  for (std::uint64_t id = 0; id < requests.size(); ++id) {
    REQUIRE(f.submit(id, requests[id].prompt, requests[id].max_new, requests[id].spec));
    f.env.time_ns += 1'000'000;
    if (rng() % 3 != 0 || !f.plan()) continue;
    look();
    f.seal();
    f.commit();
  }
  run_looking(f, look);
  for (std::uint64_t id = 0; id < requests.size(); ++id) CHECK(f.text(id) == f.expected(requests[id].prompt, requests[id].max_new));
}

/// Ids in the order in which they first got rows, one sequence at a time.
inline std::vector<std::uint64_t> served(SchedFixture& f) {
  std::vector<std::uint64_t> ids;
  run_looking(f, [&] {
    for (const kvpage::PlannedOwner& owner : f.batch->owners) {
      if (ids.empty() || ids.back() != owner.request.value) ids.push_back(owner.request.value);
    }
  });
  return ids;
}

/// Blocks that a running request still misses for `num_tokens` tokens.
inline std::int64_t missing_blocks(const SchedFixture& f, std::uint64_t id, std::int64_t num_tokens) {
  const kvpage::Request* r = f.scheduler.find(kvpage::RequestId{id});
  const std::int64_t block = f.cache.config().block_size;
  return std::max<std::int64_t>(0, kvpage::ceil_div(num_tokens, block) - kvpage::ceil_div(f.cache.num_tokens(r->seq), block));
}

}  // namespace kvpage_test
