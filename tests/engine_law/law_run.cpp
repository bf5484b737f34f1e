#include "engine_law/law_run.hpp"

#include "engine_batching/engine_fixture.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

namespace kvpage_test {
namespace {

using namespace kvpage::engine;
using kvpage::BatchPlan;
using kvpage::RequestId;

std::uint64_t digest_of(std::span<const float> logits) {
  std::uint64_t digest = 0xcbf29ce484222325u;
  for (const float x : logits) digest = std::rotl((digest ^ std::bit_cast<std::uint32_t>(x)) * 0x9e3779b97f4a7c15u, 23);
  return digest;
}

/// NaN in every format, as a value and as a scale.
void poison(std::span<std::byte> page) { std::memset(page.data(), 0xFF, page.size()); }

class Watch final : public LawControls {
 public:
  Watch(LanguageModel& model, const LawCondition& condition, StepWork& work)
      : condition_(condition), work_(work), model_(model),
        engine_(model_, config(model, condition, new_pages_), policies(condition), env_, {}, nullptr) {
    for (std::uint32_t block = 0; block < model.pool_shape().num_blocks; ++block) {
      poison(model.fetch_page(kvpage::BlockId{block}));
      model.store_page(kvpage::BlockId{block});
    }
    engine_.on_plan([this](const BatchPlan& plan) { take(plan); });
    model_.before_forward = [this](const BatchPlan&) {
      return condition_.fails && subject_ && condition_.fails(step_) ? kvpage::Status{kvpage::StatusCode::kInvalidArgument, "made to fail"}
                                                                    : kvpage::Status{};
    };
    model_.on_logits = [this](std::int64_t index, std::span<float> logits) {
      const auto [first, last] = drawn_from_.equal_range(index);
      for (auto it = first; it != last; ++it) outcome_.bits.logits[it->second] = digest_of(logits);
    };
  }

  RequestId submit(const GenerationRequest& request) override { return accept(request); }
  void cancel(RequestId request) override { REQUIRE(engine_.cancel(request)); }
  std::int64_t preempt() override { return engine_.preempt(*subject_); }
  void set_priority(std::int64_t priority) override { REQUIRE(engine_.set_priority(*subject_, priority).value()); }

  LawOutcome run(const GenerationRequest& subject) {
    for (const GenerationRequest& request : condition_.before) accept(request);
    while (engine_.num_requests() > 0) step();
    for (const GenerationRequest& request : condition_.ahead) accept(request);
    subject_ = accept(subject);
    for (const GenerationRequest& request : condition_.behind) accept(request);
    for (step_ = 0; !finished_; ++step_) {
      if (condition_.before_step) condition_.before_step(*this, step_);
      step();
    }
    outcome_.counters = engine_.cache().counters();
    outcome_.num_threads = model_.num_threads();
    CHECK(new_pages_ > 0);
    return outcome_;
  }

 private:
  static EngineConfig config(LanguageModel& model, const LawCondition& condition, std::int64_t& new_pages) {
    EngineConfig config;
    config.limits.max_seqs = condition.max_seqs;
    config.limits.max_chunk_tokens = condition.max_chunk_tokens;
    config.cache.host_tier_bytes = condition.host_tier_pages * model.page_bytes();
    config.cache.on_new_page = [&new_pages](std::span<std::byte> page) {
      poison(page);
      ++new_pages;
    };
    return config;
  }
  static kvpage::NamedPolicies policies(const LawCondition& condition) {
    kvpage::NamedPolicies policies;
    policies.admission = kvpage::AnyAdmission(kvpage::ReserveChunk{});  // fills small pools, so that somebody is displaced
    if (condition.by_priority) policies.order = kvpage::AnyOrder(kvpage::PriorityOrder{});
    return policies;
  }

  RequestId accept(const GenerationRequest& request) {
    const auto ticket = engine_.submit(request);
    if (!ticket) FAIL(kvpage::describe(ticket.error()) << ": " << ticket.error().value << ", " << ticket.error().limit);
    return ticket->id;
  }
  void take(const BatchPlan& plan) {
    REQUIRE(kvpage::validate(plan, model_.pool_shape().block_size).has_value());
    drawn_from_.clear();
    if (!subject_) return;
    outcome_.record.take(plan, *subject_);
    for (const auto& sample : plan.samples) {
      if (sample.request == *subject_) drawn_from_.insert({sample.logit_index, {sample.position, sample.child}});
    }
  }
  void step() {
    const StepOutput& output = engine_.step();
    if (!output.status.ok()) {
      if (!condition_.fails || !condition_.fails(step_)) FAIL(output.status.message());
      REQUIRE_FALSE(output.gave_up);
      ++outcome_.num_failed_steps;
      return;
    }
    if (output.num_tokens > 0) work_.take(model_.step_stats());
    for (const GenerationResult& result : output.finished) {
      if (!subject_ || result.request != *subject_) continue;
      for (const Answer& answer : result.answers) {
        AnswerBits& bits = outcome_.bits.answers.emplace_back(AnswerBits{answer.ids, {}});
        for (const auto& token : answer.logprobs) bits.logprobs.push_back(token.chosen.logprob);
      }
      outcome_.metrics = result.metrics;
      finished_ = true;
    }
  }

  const LawCondition& condition_;
  StepWork& work_;
  TestEnv env_;
  HookedModel model_;
  std::int64_t new_pages_ = 0;
  TestEngine engine_;
  std::optional<RequestId> subject_;
  std::int64_t step_ = 0;
  std::multimap<std::int64_t, std::pair<std::int64_t, std::uint32_t>> drawn_from_;  ///< position and answer, by logit row
  bool finished_ = false;
  LawOutcome outcome_;
};

}  // namespace

void PlanRecord::take(const BatchPlan& plan, RequestId request) {
  demotions += std::ssize(plan.demotions);
  for (const auto& preemption : plan.preemptions) {
    if (preemption.request == request) preemptions.push_back(preemption.kind);
  }
  for (const auto& owner : plan.loading) {
    if (owner.request == request) promotions += std::ssize(plan.promotions);
  }
  std::int64_t num_answers = 0;
  for (std::size_t s = 0; s < plan.owners.size(); ++s) {
    if (plan.owners[s].request != request) continue;
    ++num_answers;
    const auto& rows = plan.sequences[s];
    const std::int64_t cached_tokens = plan.owners[s].cached_tokens;
    visits.push_back({plan.num_tokens(), plan.num_seqs(), static_cast<std::int64_t>(s), rows.first_pos, rows.q_count, cached_tokens});
    const auto& group = plan.groups.front();
    blocks.assign(group.block_ids.begin() + group.indptr[s], group.block_ids.begin() + group.indptr[s + 1]);
  }
  if (num_answers > 0) copies += std::ssize(plan.copies);
  most_answers = std::max(most_answers, num_answers);
}

std::int64_t PlanRecord::admissions() const {
  return std::count_if(visits.begin(), visits.end(), [](const LawVisit& visit) { return visit.cached_tokens >= 0; });
}

std::vector<std::int64_t> PlanRecord::chunk_ends(std::int64_t prompt_tokens) const {
  std::vector<std::int64_t> ends;
  for (const LawVisit& visit : visits) {
    if (visit.first_pos < prompt_tokens) ends.push_back(visit.first_pos + visit.q_count);
  }
  return ends;
}

std::int64_t PlanRecord::visits_in(std::int64_t num_seqs, std::int64_t place) const {
  return std::count_if(visits.begin(), visits.end(),
                       [&](const LawVisit& visit) { return visit.num_seqs == num_seqs && visit.place == place; });
}

bool PlanRecord::blocks_ascend() const {
  return std::is_sorted(blocks.begin(), blocks.end(), [](kvpage::BlockId a, kvpage::BlockId b) { return a.value < b.value; });
}

void StepWork::take(const StepStats& stats) {
  kinds_.insert({stats.logit_rows > 0, stats.gemm_launches, stats.weight_bytes, stats.attention_launches});
  least_rows_ = std::min(least_rows_, stats.rows);
  most_rows_ = std::max(most_rows_, stats.rows);
}

void StepWork::require_one_forward_per_step(std::int64_t most_rows) const {
  for (const auto& [has_logits, launches, bytes, attention] : kinds_) {
    UNSCOPED_INFO((has_logits ? "with" : "without")
                  << " logits: " << launches << " launches, " << bytes << " bytes, " << attention << " attentions");
  }
  REQUIRE(least_rows_ == 1);
  REQUIRE(most_rows_ >= most_rows);
  REQUIRE(kinds_.size() <= 2);
  REQUIRE(std::count_if(kinds_.begin(), kinds_.end(), [](const auto& kind) { return std::get<0>(kind); }) == 1);
}

LawOutcome run_law(LanguageModel& model, const LawCondition& condition, const GenerationRequest& subject, StepWork& work) {
  return Watch(model, condition, work).run(subject);
}

}  // namespace kvpage_test
