/// \file One run of the engine that watches one request: what it got, bit by bit, and what the sealed plans did with it.
#pragma once

#include "engine/model/language_model.hpp"
#include "engine/page_cache.hpp"
#include "engine/sampling/generation_request.hpp"
#include "engine/sampling/step_output.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace kvpage_test {

using kvpage::TokenId;

/// What one answer says.
struct AnswerBits {
  std::vector<TokenId> ids;
  std::vector<float> logprobs;
  bool operator==(const AnswerBits&) const = default;
};

/// All that a request may depend on is itself: these must be equal in every run.
struct LawBits {
  std::vector<AnswerBits> answers;
  /// By position and answer: digest of the row of logits that the token was drawn from.
  std::map<std::pair<std::int64_t, std::uint32_t>, std::uint64_t> logits;
  bool operator==(const LawBits&) const = default;
};

/// One step that had rows of the request.
struct LawVisit {
  std::int64_t step_rows, num_seqs, place;  ///< of the step, and which of its sequences the request was
  std::int64_t first_pos, q_count;
  std::int64_t cached_tokens;  ///< of an admission; -1 = it was running
};

/// What the sealed plans of a run did with one request, and with pages.
struct PlanRecord {
  std::vector<LawVisit> visits;
  std::vector<kvpage::BlockId> blocks;  ///< of its whole table in the first group, as the last step saw it
  std::vector<kvpage::PreemptionKind> preemptions;
  std::int64_t most_answers = 0;  ///< that ran in one step
  std::int64_t copies = 0;      ///< of pages, in steps of the request
  std::int64_t demotions = 0;   ///< pages of any request
  std::int64_t promotions = 0;  ///< pages that came back for this one

  void take(const kvpage::BatchPlan& plan, kvpage::RequestId request);
  std::int64_t admissions() const;
  /// Ends of the prompt's chunks.
  std::vector<std::int64_t> chunk_ends(std::int64_t prompt_tokens) const;
  std::int64_t visits_in(std::int64_t num_seqs, std::int64_t place) const;
  bool blocks_ascend() const;
};

struct LawOutcome {
  LawBits bits;
  PlanRecord record;
  kvpage::engine::RequestMetrics metrics;
  kvpage::engine::CacheCounters counters;
  std::int64_t num_threads = 0;
  std::int64_t num_failed_steps = 0;  ///< each was tried again
};

/// What a condition may do to a running engine (engine.hpp is compiled in law_run.cpp alone).
class LawControls {
 public:
  virtual ~LawControls() = default;
  virtual kvpage::RequestId submit(const kvpage::engine::GenerationRequest& request) = 0;
  virtual void cancel(kvpage::RequestId request) = 0;
  /// Of the request that is watched: answers that lost their blocks, 0 or 1.
  virtual std::int64_t preempt() = 0;
  virtual void set_priority(std::int64_t priority) = 0;
};

/// Circumstances of one run. They may be anything at all: the text may not change.
struct LawCondition {
  std::string name;
  int num_threads = 1;
  bool small_pool = false;      ///< a pool that holds little more than the request
  bool by_priority = false;
  std::int64_t max_chunk_tokens = 1 << 20;
  std::int64_t max_seqs = 32;
  std::int64_t host_tier_pages = 0;
  std::vector<kvpage::engine::GenerationRequest> before;  ///< have ended when the others come
  std::vector<kvpage::engine::GenerationRequest> ahead, behind;  ///< come with the request
  std::function<void(LawControls&, std::int64_t step)> before_step;
  std::function<bool(std::int64_t step)> fails;  ///< whether the model fails in this step, after the transfers and before the forward pass
  /// Fails the test unless what the condition is about took place.
  std::function<void(const LawOutcome&)> require_happened;
};

/// Launches and weight bytes of steps: they must not grow with rows, so that there are few different ones.
class StepWork {
 public:
  void take(const kvpage::engine::StepStats& stats);
  /// Requires one kind of step with logits, at most one without, and steps of one and of `most_rows` rows.
  void require_one_forward_per_step(std::int64_t most_rows) const;

 private:
  std::set<std::tuple<bool, std::int64_t, std::int64_t, std::int64_t>> kinds_;
  std::int64_t least_rows_ = 1 << 30, most_rows_ = 0;
};

/// Runs `subject` under `condition` on a cold cache, in a pool whose every page, new page and later new page is poison.
LawOutcome run_law(kvpage::engine::LanguageModel& model, const LawCondition& condition, const kvpage::engine::GenerationRequest& subject,
                   StepWork& work);

}  // namespace kvpage_test
