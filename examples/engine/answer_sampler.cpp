/// \file AnswerSampler: rows of a step to tokens, on all workers of the model.
#include "engine/answer_sampler.hpp"

#include "engine/model/language_model.hpp"
#include "engine/sampling/check_request.hpp"
#include "engine/sampling/request_sampler.hpp"
#include "engine/sampling/row_job.hpp"

#include <kvpage/base/error.hpp>

#include <algorithm>
#include <atomic>
#include <unordered_map>
#include <vector>

namespace kvpage::engine {

namespace {

/// Rows of logits that are computed in one launch, and the samples that are drawn from them.
struct LogitRows {
  std::int64_t first, count;
  std::size_t begin, end;
};

}  // namespace

struct AnswerSampler::State {
  std::int64_t vocab_size;
  std::span<const TokenId> end_tokens;
  const Tokenizer* tokenizer;
  std::unordered_map<std::uint64_t, RequestSampler> requests{};
  // Of the step in work.
  std::vector<RequestSampler*> owners{};            // [num_samples]
  std::vector<RowJob> jobs{};                     // [num_samples]
  std::vector<RowResult> rows{};                  // [>= num_samples], kept for its memory
  std::vector<std::vector<std::uint64_t>> scratch{};  // [num_threads], for sample_row

  void prepare(const BatchPlan& plan, const LanguageModel& model);
  Status take_argmaxes(const LogitRows& part, const BatchPlan& plan, LanguageModel& model);
  Status draw_from_logits(const LogitRows& part, const BatchPlan& plan, LanguageModel& model);
  void draw(std::size_t begin, std::size_t end, LanguageModel& model);
  void widen(std::size_t begin, std::size_t end, const BatchPlan& plan);
  void settle(const BatchPlan& plan, std::span<SampleResult> results);
};

void AnswerSampler::State::prepare(const BatchPlan& plan, const LanguageModel& model) {
  owners.clear(), jobs.clear();
  if (rows.size() < plan.samples.size()) rows.resize(plan.samples.size());
  for (std::size_t s = 0; s < plan.samples.size(); ++s) {
    const auto request = requests.find(plan.samples[s].request.value);
    KVPAGE_ASSERT(request != requests.end(), "the sampler knows each request of the plan");
    owners.push_back(&request->second);
    jobs.push_back(request->second.job_for(plan.samples[s], vocab_size, model.context_tokens()));
    rows[s].prepare(jobs.back());
  }
  scratch.resize(static_cast<std::size_t>(model.num_threads()));
  const auto words = static_cast<std::size_t>(sample_scratch_bytes(vocab_size)) / sizeof(std::uint64_t);
  for (auto& memory : scratch) memory.resize(words);
}

/// Greedy draws that nothing else touches: the logits themselves are not wanted.
Status AnswerSampler::State::take_argmaxes(const LogitRows& part, const BatchPlan& plan, LanguageModel& model) {
  const auto argmax = model.argmax(part.first, part.count);
  if (!argmax) return argmax.error();
  for (std::size_t s = part.begin; s < part.end; ++s) {
    take_argmax(jobs[s], (*argmax)[static_cast<std::size_t>(plan.samples[s].logit_index - part.first)], rows[s]);
  }
  return {};
}

Status AnswerSampler::State::draw_from_logits(const LogitRows& part, const BatchPlan& plan, LanguageModel& model) {
  const auto logits = model.logits(part.first, part.count);
  if (!logits) return logits.error();
  for (std::size_t s = part.begin; s < part.end; ++s) {
    jobs[s].args.logits = logits->data() + (plan.samples[s].logit_index - part.first) * vocab_size;
  }
  draw(part.begin, part.end, model);
  widen(part.begin, part.end, plan);
  return {};
}

/// Does jobs [begin, end). Which worker does which is left open: a result depends on nothing but its job.
void AnswerSampler::State::draw(std::size_t begin, std::size_t end, LanguageModel& model) {
  std::atomic<std::size_t> next{begin};
  const auto num_workers = static_cast<std::int64_t>(std::min(scratch.size(), end - begin));
  model.parallel(num_workers, [&](std::int64_t worker) {
    const auto memory = std::as_writable_bytes(std::span(scratch[static_cast<std::size_t>(worker)]));
    for (std::size_t s = next++; s < end; s = next++) run_row(jobs[s], memory, rows[s]);
  });
}

/// Asks rows [begin, end) of beams again while stop strings end too many of their continuations. Rare: on this thread alone.
void AnswerSampler::State::widen(std::size_t begin, std::size_t end, const BatchPlan& plan) {
  const auto memory = std::as_writable_bytes(std::span(scratch.front()));
  for (std::size_t s = begin; s < end; ++s) {
    while (jobs[s].num_continuations < vocab_size && owners[s]->needs_more(plan.samples[s].child, jobs[s], rows[s])) {
      jobs[s].num_continuations = std::min(2 * jobs[s].num_continuations, vocab_size);
      rows[s].prepare(jobs[s]);
      run_row(jobs[s], memory, rows[s]);
    }
  }
}

/// The rows of a beam stand together, in the order of its answers.
void AnswerSampler::State::settle(const BatchPlan& plan, std::span<SampleResult> results) {
  for (std::size_t s = 0; s < owners.size();) {
    std::size_t end = s + 1;
    if (owners[s]->is_beam()) {
      while (end < owners.size() && owners[end] == owners[s]) ++end;
      owners[s]->settle_beam(std::span<const RowResult>(rows).subspan(s, end - s), results.subspan(s, end - s));
    } else {
      results[s] = owners[s]->settle(plan.samples[s].child, rows[s]);
    }
    s = end;
  }
}

AnswerSampler::AnswerSampler(std::int64_t vocab_size, std::span<const TokenId> end_tokens, const Tokenizer* tokenizer)
    : state_(std::make_unique<State>(State{.vocab_size = vocab_size, .end_tokens = end_tokens, .tokenizer = tokenizer})) {
  if (vocab_size < 1 || vocab_size > kMaxVocabSize) {
    throw_config_error("the sampler draws from 1 to 524288 tokens (vocab_size)", vocab_size, kMaxVocabSize, "tokens");
  }
  if (tokenizer != nullptr && static_cast<std::int64_t>(tokenizer->vocab().size()) < vocab_size) {
    throw_config_error("the model has more tokens than the tokenizer has texts", vocab_size,
                       static_cast<std::int64_t>(tokenizer->vocab().size()), "tokens");
  }
}

AnswerSampler::~AnswerSampler() = default;

Expected<void, Refusal> AnswerSampler::check(const GenerationRequest& request) const {
  return check_request(request, state_->vocab_size, state_->tokenizer != nullptr);
}

void AnswerSampler::begin(RequestId id, const GenerationRequest& request) {
  const bool added = state_->requests.try_emplace(id.value, request, state_->end_tokens, state_->tokenizer).second;
  KVPAGE_ASSERT(added, "an id is in flight once");
}

void AnswerSampler::forget(RequestId id) noexcept { state_->requests.erase(id.value); }

std::span<const TokenId> AnswerSampler::scheduler_stop_tokens(RequestId id) const {
  const RequestSampler& request = state_->requests.at(id.value);
  return request.is_beam() ? std::span<const TokenId>{} : request.stop_tokens();
}

Status AnswerSampler::sample(const BatchPlan& plan, LanguageModel& model, std::span<SampleResult> results) {
  KVPAGE_ASSERT(results.size() == plan.samples.size(), "one result per sample");
  state_->prepare(plan, model);
  const auto num_rows = static_cast<std::int64_t>(plan.logit_rows.size());
  std::size_t done = 0;
  for (std::int64_t first = 0; first < num_rows;) {
    const std::int64_t count = std::min(model.max_logit_rows(), num_rows - first);
    std::size_t end = done;
    while (end < plan.samples.size() && plan.samples[end].logit_index < first + count) ++end;
    const LogitRows rows{first, count, done, end};
    const bool greedy = std::all_of(state_->jobs.begin() + static_cast<std::ptrdiff_t>(done),
                                    state_->jobs.begin() + static_cast<std::ptrdiff_t>(end), wants_argmax);
    const Status status = greedy ? state_->take_argmaxes(rows, plan, model) : state_->draw_from_logits(rows, plan, model);
    if (!status.ok()) return status;
    done = end;
    first += count;
  }
  state_->settle(plan, results);
  return {};
}

void AnswerSampler::on_event(const RequestEvent& event, StepOutput& output) {
  state_->requests.at(event.request.value).on_event(event, output);
}

std::span<const TokenId> AnswerSampler::tokens_of(RequestId id, std::uint32_t answer) const {
  return state_->requests.at(id.value).tokens_of(answer);
}

std::vector<Answer> AnswerSampler::finish(RequestId id) {
  const auto request = state_->requests.find(id.value);
  KVPAGE_ASSERT(request != state_->requests.end(), "the request is in flight");
  std::vector<Answer> answers = request->second.take_answers();
  state_->requests.erase(request);
  return answers;
}

}  // namespace kvpage::engine
