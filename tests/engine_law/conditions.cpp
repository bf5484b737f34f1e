#include "engine_law/conditions.hpp"

#include "engine_law/circumstances.hpp"

#include <algorithm>
#include <memory>

namespace kvpage_test {
namespace {

/// What a condition requires of a request with one answer is another number with several.
LawCondition with_answers(LawCondition condition, std::int64_t num_answers, const std::function<void(const LawOutcome&)>& check = {}) {
  condition.require_happened = [num_answers, check](const LawOutcome& outcome) {
    REQUIRE(outcome.record.most_answers == num_answers);
    if (check) check(outcome);
  };
  return condition;
}

/// Several circumstances at once, by seed. `all_taken`: how often the blocks of all mixtures together were taken.
LawCondition mixed_condition(const GenerationRequest& subject, std::int64_t vocab_size, std::uint64_t seed,
                             const std::shared_ptr<std::int64_t>& all_taken) {
  Conditions some(subject, vocab_size, seed);
  const std::int64_t size = some.between(2, 32), chunk = some.between(1, 400), first = some.between(1, 20), second = some.between(21, 60);
  LawCondition condition = some.batch(size, static_cast<int>(some.between(1, 3)));
  condition.name += " mixed by seed " + std::to_string(seed) + ", chunks of " + std::to_string(chunk);
  condition.max_chunk_tokens = chunk;
  for (int i = 0; i < 12; ++i) condition.before.push_back(some.neighbour(some.between(300, 900), some.between(2, 30)));
  if (some.between(0, 1) == 1) condition.before.push_back(some.beginning(some.between(1, kLawPromptTokens), 30));
  std::shared_ptr<std::int64_t> taken = std::make_shared<std::int64_t>(0);
  condition.before_step = [first, second, taken](LawControls& run, std::int64_t step) {
    if (step == first || step == second) *taken += run.preempt();
  };
  condition.require_happened = [taken, all_taken, chunk](const LawOutcome& outcome) {
    REQUIRE(outcome.record.admissions() == 1 + *taken);
    *all_taken += *taken;
    std::int64_t company = 0;
    for (const LawVisit& visit : outcome.record.visits) {
      REQUIRE(visit.q_count <= chunk);
      company = std::max(company, visit.num_seqs);
    }
    REQUIRE(company > 1);
    REQUIRE_FALSE(outcome.record.blocks_ascend());
  };
  return condition;
}

}  // namespace

GenerationRequest law_request(std::vector<TokenId> prompt, std::int64_t max_tokens) {
  GenerationRequest request;
  request.prompt_ids = std::move(prompt);
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  request.num_logprobs = 0;
  request.seed = 20;
  return request;
}

GenerationRequest law_request_of(std::vector<TokenId> prompt, std::int64_t num_answers, bool beam) {
  GenerationRequest request = law_request(std::move(prompt), kLawNewTokens);
  request.n = num_answers;
  if (beam) request.beam_width = num_answers, request.sampling.temperature = 0;
  return request;
}

LawCondition one_shot() {
  LawCondition condition = Conditions({}, 1, 1).alone(1);
  condition.name = "one shot";
  return condition;
}

std::vector<LawCondition> law_conditions(const GenerationRequest& subject, std::int64_t vocab_size) {
  Conditions some(subject, vocab_size, 1);
  return {some.alone(1),      some.alone(2),      some.alone(3),        some.batch(2, 1),           some.batch(7, 2),
          some.batch(32, 3),  some.chunks(1, 1),  some.chunks(16, 2),   some.chunks(100, 3),        some.chunks(777, 2),
          some.hit(500, 1),   some.hit(800, 3),   some.taken(2),        some.displaced(1, 0, 2),    some.displaced(12, 400, 2),
          some.parked(1),     some.tier(2),       some.any_blocks(3),   some.left(2),              some.failed(1),
          some.displaced_and_failed(0, 2),        some.displaced_and_failed(400, 1)};
}

std::vector<LawCondition> answers_conditions(const GenerationRequest& subject, std::int64_t vocab_size) {
  Conditions some(subject, vocab_size, 3);
  const std::int64_t n = subject.num_candidates();
  const auto computed_again = [](const LawOutcome& outcome) { REQUIRE(outcome.metrics.recomputed_tokens > 0); };
  const auto brought_back = [](const LawOutcome& outcome) { REQUIRE(outcome.record.promotions > 0); };
  return {with_answers(some.alone(3), n),
          with_answers(some.batch(7, 2), n, [](const LawOutcome& outcome) { REQUIRE(outcome.record.visits.back().num_seqs >= 7); }),
          with_answers(some.chunks(100, 1), n, [](const LawOutcome& outcome) { REQUIRE(outcome.record.visits.front().q_count == 100); }),
          with_answers(some.hit(500, 2), n, [](const LawOutcome& outcome) { REQUIRE(outcome.metrics.cached_tokens > 460); }),
          with_answers(some.taken(2), n, [](const LawOutcome& outcome) { REQUIRE(outcome.record.admissions() >= 4); }),
          with_answers(some.displaced(12, 0, 1), n, computed_again),
          with_answers(some.displaced(12, 400, 2), n, brought_back),
          with_answers(some.tier(1), n, brought_back),
          with_answers(some.left(2), n),
          with_answers(some.failed(1), n, [](const LawOutcome& outcome) { REQUIRE(outcome.num_failed_steps == 5); }),
          with_answers(some.displaced_and_failed(400, 2), n, brought_back)};
}

std::vector<LawCondition> more_conditions(const GenerationRequest& subject, std::int64_t vocab_size, std::uint64_t num_mixed) {
  Conditions some(subject, vocab_size, 2);
  std::vector<LawCondition> conditions{some.batch(7, 3),    some.batch(32, 1),        some.batch(20, 2),         some.chunks(37, 2),
                                       some.hit(640, 2),    some.hit(799, 1),         some.displaced(2, 0, 3),   some.displaced(12, 0, 2),
                                       some.displaced(1, 400, 2), some.displaced(40, 400, 1)};
  const auto all_taken = std::make_shared<std::int64_t>(0);
  for (std::uint64_t seed = 1; seed <= num_mixed; ++seed) conditions.push_back(mixed_condition(subject, vocab_size, seed, all_taken));
  if (num_mixed == 0) return conditions;
  conditions.back().require_happened = [all_taken, check = std::move(conditions.back().require_happened)](const LawOutcome& outcome) {
    check(outcome);
    REQUIRE(*all_taken > 0);
  };
  return conditions;
}

}  // namespace kvpage_test
