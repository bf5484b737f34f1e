/// \file One function per kind of circumstance: what happens beside a request, and the proof that it happened.
#pragma once

#include "engine_law/conditions.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace kvpage_test {

using kvpage::engine::GenerationRequest;

class Conditions {
 public:
  Conditions(const GenerationRequest& subject, std::int64_t vocab_size, std::uint64_t seed)
      : subject_(subject), vocab_size_(vocab_size), random_(seed) {}

  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most - least + 1));
  }
  GenerationRequest neighbour(std::int64_t num_tokens, std::int64_t max_tokens) {
    std::vector<TokenId> prompt;
    for (std::int64_t i = 0; i < num_tokens; ++i) prompt.push_back(static_cast<TokenId>(between(0, vocab_size_ - 1)));
    return law_request(std::move(prompt), max_tokens);
  }
  /// The first `count` tokens of the request, and others.
  GenerationRequest beginning(std::int64_t count, std::int64_t num_others) {
    GenerationRequest request = neighbour(num_others, 2);
    request.prompt_ids.insert(request.prompt_ids.begin(), subject_.prompt_ids.begin(), subject_.prompt_ids.begin() + count);
    return request;
  }

  LawCondition alone(int num_threads) {
    LawCondition condition;
    condition.name = "alone, " + std::to_string(num_threads) + " threads";
    condition.num_threads = num_threads;
    condition.require_happened = [num_threads](const LawOutcome& outcome) {
      REQUIRE(outcome.num_threads == num_threads);
      REQUIRE(outcome.record.visits_in(1, 0) == kLawNewTokens);
      REQUIRE(outcome.record.chunk_ends(kLawPromptTokens) == std::vector<std::int64_t>{kLawPromptTokens});
      REQUIRE(outcome.record.blocks_ascend());
    };
    return condition;
  }

  /// Among size - 1 others that run as long, at any place.
  LawCondition batch(std::int64_t size, int num_threads) {
    LawCondition condition;
    const std::int64_t place = between(0, size - 1);
    condition.name = "batch of " + std::to_string(size) + " at place " + std::to_string(place);
    condition.num_threads = num_threads;
    for (std::int64_t i = 0; i + 1 < size; ++i) {
      (i < place ? condition.ahead : condition.behind).push_back(neighbour(between(1, size > 8 ? 6 : 90), kLawNewTokens + 20));
    }
    condition.require_happened = [size, place](const LawOutcome& outcome) {
      REQUIRE(outcome.record.visits_in(size, place) > kLawNewTokens / 2);
      REQUIRE(outcome.record.visits.front().step_rows > kLawPromptTokens / 2 + size - 1);
    };
    return condition;
  }

  LawCondition chunks(std::int64_t size, int num_threads) {
    LawCondition condition;
    condition.name = "chunks of " + std::to_string(size);
    condition.num_threads = num_threads;
    condition.max_chunk_tokens = size;
    condition.require_happened = [size](const LawOutcome& outcome) {
      std::vector<std::int64_t> ends;
      for (std::int64_t end = 0; end < kLawPromptTokens;) ends.push_back(end = std::min(end + size, kLawPromptTokens));
      REQUIRE(outcome.record.chunk_ends(kLawPromptTokens) == ends);
    };
    return condition;
  }

  /// After the first `count` tokens of its prompt, in full pages and in the middle of one, were computed for somebody else.
  LawCondition hit(std::int64_t count, int num_threads) {
    LawCondition condition;
    condition.name = "hit of " + std::to_string(count);
    condition.num_threads = num_threads;
    condition.before = {beginning(count, 50)};
    condition.require_happened = [count](const LawOutcome& outcome) {
      REQUIRE(outcome.record.visits.front().cached_tokens > count - 40);
      REQUIRE(outcome.metrics.cached_tokens == outcome.record.visits.front().cached_tokens);
      REQUIRE(outcome.record.chunk_ends(kLawPromptTokens).size() == 1);
      REQUIRE(outcome.record.visits.front().q_count < kLawPromptTokens - count + 40);
    };
    return condition;
  }

  /// Its blocks are taken three times: while its prompt is computed, and between two tokens.
  LawCondition taken(int num_threads) {
    LawCondition condition;
    condition.name = "preempted by its owner";
    condition.num_threads = num_threads;
    condition.max_chunk_tokens = 100;
    condition.before_step = [](LawControls& run, std::int64_t step) {
      if (step == 3 || step == 15 || step == 30) REQUIRE(run.preempt() >= 1);
    };
    condition.require_happened = [](const LawOutcome& outcome) {
      REQUIRE(outcome.metrics.preempted_demote + outcome.metrics.preempted_recompute == 3);
      REQUIRE(outcome.record.admissions() == 4);
    };
    return condition;
  }

  /// An urgent request needs the blocks: what is overwritten must be computed again, or comes back from the host tier.
  LawCondition displaced(std::int64_t at_step, std::int64_t host_tier_pages, int num_threads) {
    LawCondition condition;
    condition.name = "displaced at step " + std::to_string(at_step) + (host_tier_pages > 0 ? ", host tier" : "");
    condition.num_threads = num_threads;
    condition.small_pool = condition.by_priority = true;
    condition.max_chunk_tokens = kLawSmallChunkTokens;
    condition.host_tier_pages = host_tier_pages;
    condition.before_step = [at_step, urgent = neighbour(500, 3)](LawControls& run, std::int64_t step) {
      if (step == 0) run.set_priority(5);
      if (step == at_step) run.submit(urgent);
    };
    condition.require_happened = [host_tier_pages](const LawOutcome& outcome) {
      const bool demoted = host_tier_pages > 0;
      REQUIRE(!outcome.record.preemptions.empty());
      REQUIRE((demoted ? outcome.metrics.preempted_demote : outcome.metrics.preempted_recompute) > 0);
      if (demoted) REQUIRE(outcome.record.promotions > 0);
      if (!demoted) REQUIRE(outcome.record.admissions() > 1);
      if (!demoted) REQUIRE(outcome.metrics.recomputed_tokens >= 100);
    };
    return condition;
  }

  /// Only its row is taken.
  LawCondition parked(int num_threads) {
    LawCondition condition;
    condition.name = "parked";
    condition.num_threads = num_threads;
    condition.by_priority = true;
    condition.max_seqs = 1;
    condition.max_chunk_tokens = 300;
    condition.before_step = [urgent = neighbour(40, 3)](LawControls& run, std::int64_t step) {
      if (step == 0) run.set_priority(5);
      if (step == 2 || step == 20) run.submit(urgent);
    };
    condition.require_happened = [](const LawOutcome& outcome) { REQUIRE(outcome.metrics.preempted_keep == 2); };
    return condition;
  }

  /// Its prompt was computed before, left the pool for the host tier, and comes back.
  LawCondition tier(int num_threads) {
    LawCondition condition;
    condition.name = "host tier";
    condition.num_threads = num_threads;
    condition.small_pool = true;
    condition.max_chunk_tokens = kLawSmallChunkTokens;
    condition.host_tier_pages = 400;
    condition.before = {beginning(700, 20), neighbour(750, 2)};
    condition.require_happened = [](const LawOutcome& outcome) {
      REQUIRE(outcome.counters.demoted > 0);
      REQUIRE(outcome.counters.promoted > 0);
      REQUIRE(outcome.record.promotions > 0);
      REQUIRE(outcome.metrics.cached_tokens > 300);
    };
    return condition;
  }

  /// Others have come and gone, in another order: its pages lie anywhere.
  LawCondition any_blocks(int num_threads) {
    LawCondition condition;
    condition.name = "permuted blocks";
    condition.num_threads = num_threads;
    condition.small_pool = true;
    condition.max_chunk_tokens = kLawSmallChunkTokens;
    for (int i = 0; i < 24; ++i) condition.before.push_back(neighbour(between(1, 80), between(1, 8)));
    condition.require_happened = [](const LawOutcome& outcome) { REQUIRE_FALSE(outcome.record.blocks_ascend()); };
    return condition;
  }

  /// Others with its first tokens leave: one while that prompt is computed, one between two tokens, one before it has a row.
  LawCondition left(int num_threads) {
    LawCondition condition;
    condition.name = "others are cancelled";
    condition.num_threads = num_threads;
    condition.max_chunk_tokens = 100;
    condition.max_seqs = 4;
    auto ids = std::make_shared<std::vector<kvpage::RequestId>>();
    std::vector<GenerationRequest> others{beginning(600, 100), beginning(300, 5), beginning(200, 5), beginning(700, 9)};
    for (GenerationRequest& request : others) request.max_tokens = 200;
    condition.before_step = [ids, others](LawControls& run, std::int64_t step) {
      if (step == 0) {
        for (const GenerationRequest& request : others) ids->push_back(run.submit(request));
      }
      if (step == 3) run.cancel(ids->at(0));
      if (step == 4) run.cancel(ids->at(3));
      if (step == 20) run.cancel(ids->at(1));
    };
    condition.require_happened = [](const LawOutcome& outcome) {
      std::int64_t company = 0;
      for (const LawVisit& visit : outcome.record.visits) company = std::max(company, visit.num_seqs);
      REQUIRE(company >= 3);
      REQUIRE(outcome.record.visits.back().num_seqs == 2);
    };
    return condition;
  }

  /// The model fails in steps of its prompt and of its answer, in the first twice; each is tried again.
  LawCondition failed(int num_threads) {
    LawCondition condition = batch(3, num_threads);
    condition.name = "steps fail";
    condition.max_chunk_tokens = 300;
    condition.fails = [](std::int64_t step) { return step == 0 || step == 1 || step == 4 || step == 20 || step == 21; };
    condition.require_happened = [](const LawOutcome& outcome) { REQUIRE(outcome.num_failed_steps == 5); };
    return condition;
  }

  /// Every third step fails, those that take its blocks and bring them back among them.
  LawCondition displaced_and_failed(std::int64_t host_tier_pages, int num_threads) {
    LawCondition condition = displaced(12, host_tier_pages, num_threads);
    condition.name += ", steps fail";
    condition.fails = [](std::int64_t step) { return step % 3 == 0; };
    condition.require_happened = [host_tier_pages](const LawOutcome& outcome) {
      REQUIRE(outcome.num_failed_steps >= 15);
      REQUIRE(!outcome.record.preemptions.empty());
      if (host_tier_pages > 0) REQUIRE(outcome.record.promotions > 0);
    };
    return condition;
  }

 private:
  const GenerationRequest& subject_;
  std::int64_t vocab_size_;
  std::mt19937_64 random_;
};

}  // namespace kvpage_test
