/// \file RequestSampler: jobs for rows, tokens into answers, answers to the client.
#include "engine/sampling/request_sampler.hpp"

#include <kvpage/base/assert.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace kvpage::engine {
namespace {

std::vector<TokenId> sorted_union(std::span<const TokenId> a, std::span<const TokenId> b) {
  std::vector<TokenId> all(a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

}  // namespace

RequestSampler::RequestSampler(const GenerationRequest& request, std::span<const TokenId> end_tokens, const Tokenizer* tokenizer)
    : params_(request.sampling),
      logit_bias_(request.logit_bias),
      stop_tokens_(sorted_union(request.ignore_eos ? std::span<const TokenId>{} : end_tokens, request.stop_tokens)),
      max_tokens_(request.max_tokens),
      min_tokens_(request.min_tokens),
      num_answers_(request.n),
      num_logprobs_(request.num_logprobs),
      temperature_last_(request.temperature_last),
      streams_(request.streams()),
      wants_scores_(request.num_logprobs >= 0 || !request.streams()) {
  params_.logit_bias = logit_bias_;
  if (params_.repetition_penalty != 1.0f) prompt_ids_ = request.prompt_ids;
  if (!request.stop_strings.empty()) stops_.emplace(request.stop_strings);
  AnswerDraft empty;
  empty.text = AnswerText(tokenizer, stops_ ? &*stops_ : nullptr, min_tokens_);
  if (request.beam_width > 0) {
    beam_.emplace(BeamConfig{.width = request.beam_width,
                             .length_penalty = request.length_penalty,
                             .max_tokens = max_tokens_,
                             .keep_logprobs = wants_logprobs(),
                             .stop_tokens = stop_tokens_},
                  empty);
  } else {
    samples_.resize(static_cast<std::size_t>(request.num_candidates()), SampledAnswer{.draft = std::move(empty)});
  }
}

bool RequestSampler::ends(TokenId id) const noexcept { return std::binary_search(stop_tokens_.begin(), stop_tokens_.end(), id); }

/// Takes the memory of an answer once it runs: steps shall take none.
void RequestSampler::reserve(AnswerDraft& draft, std::int64_t room_tokens) const {
  constexpr std::int64_t kBytesPerToken = 4;
  const std::int64_t tokens = std::clamp<std::int64_t>(max_tokens_, 1, std::max<std::int64_t>(1, room_tokens));
  if (wants_logprobs()) draft.logprobs.reserve(static_cast<std::size_t>(tokens));
  draft.ids.reserve(static_cast<std::size_t>(tokens));
  draft.text.reserve(static_cast<std::size_t>(tokens * kBytesPerToken));
}

RowJob RequestSampler::job_for(const PlannedSample& sample, std::int64_t vocab_size, std::int64_t context_tokens) {
  RowJob job;
  job.args.vocab_size = vocab_size;
  job.args.params = params_;
  job.args.params.seed = sample.seed;
  job.args.prompt_ids = prompt_ids_;
  job.args.position = static_cast<std::uint32_t>(sample.position);
  job.args.child = sample.child;
  job.num_top = std::max<std::int64_t>(0, num_logprobs_);
  job.temperature_last = temperature_last_;
  std::span<const TokenId> output;
  if (beam_) {
    output = beam_->ids(sample.child);
    job.idle = !beam_->is_live(sample.child);
    job.num_continuations = beam_->num_continuations();
  } else {
    SampledAnswer& answer = samples_[sample.child];
    forget_pending(answer);
    if (answer.draft.ids.capacity() == 0) reserve(answer.draft, context_tokens - sample.position + 1);
    output = answer.draft.ids;
    job.wants_logprob = wants_scores_;
  }
  if (params_.penalizes()) job.args.output_ids = output;
  if (static_cast<std::int64_t>(output.size()) < min_tokens_) job.args.banned = stop_tokens_;
  return job;
}

SampleResult RequestSampler::settle(std::uint32_t child, const RowResult& row) {
  if (row.error) return {.status = SampleStatus::kError};
  SampledAnswer& answer = samples_[child];
  answer.pending = true;
  answer.drawn = {.id = row.token, .ends = ends(row.token), .logprob = row.logprob, .score = row.logprob};
  answer.top.assign(row.top.begin(), row.top.end());
  if (!answer.drawn.ends) answer.draft.text.push(row.token);
  return {.token = row.token, .logprob = static_cast<float>(row.logprob), .stop = answer.draft.text.stopped()};
}

void RequestSampler::settle_beam(std::span<const RowResult> rows, std::span<SampleResult> results) {
  if (std::any_of(rows.begin(), rows.end(), [](const RowResult& row) { return row.error.has_value(); })) {
    std::fill(results.begin(), results.end(), SampleResult{.status = SampleStatus::kError});
    return;
  }
  const bool over = beam_->propose(rows);
  for (std::size_t c = 0; c < results.size(); ++c) {
    const auto child = static_cast<std::int64_t>(c);
    results[c] = {.token = beam_->token(child), .logprob = static_cast<float>(beam_->logprob(child)), .stop = over,
                  .source = beam_->source(child)};
  }
}

/// A token that was drawn for a step that was lost, or of an answer that was cancelled meanwhile.
void RequestSampler::forget_pending(SampledAnswer& answer) {
  if (answer.pending) answer.draft.text.rebuild(answer.draft.ids);
  answer.pending = false;
}

void RequestSampler::accept(SampledAnswer& answer, const RequestEvent& event, StepOutput& output) {
  KVPAGE_ASSERT(answer.pending && answer.drawn.id == event.token, "the scheduler accepts the token that was drawn last");
  const bool shows = streams_ && !answer.drawn.ends;
  if (shows) show(answer, event, output);
  try {
    answer.draft.append(answer.drawn, answer.top, wants_logprobs());
  } catch (...) {
    if (shows) output.tokens.pop_back();
    throw;
  }
  answer.pending = false;
  if (shows) answer.draft.text.mark_shown();
}

/// What a client sees of a token, all or nothing.
void RequestSampler::show(SampledAnswer& answer, const RequestEvent& event, StepOutput& output) const {
  TokenOutput& token = output.add_token();
  try {
    token.request = event.request;
    token.answer = event.child;
    token.token = event.token;
    token.text = answer.draft.text.new_text();
    token.logprobs.resize(wants_logprobs() ? 1 : 0);
    if (wants_logprobs()) set_logprobs(token.logprobs.front(), answer.drawn, answer.top);
  } catch (...) {
    output.tokens.pop_back();
    throw;
  }
}

void RequestSampler::on_event(const RequestEvent& event, StepOutput& output) {
  if (beam_) {
    if (event.has_token) beam_->accept();
    if (event.finish != FinishReason::kNone) beam_finish_ = event.finish;
    return;
  }
  SampledAnswer& answer = samples_[event.child];
  if (event.has_token) accept(answer, event, output);
  if (event.finish != FinishReason::kNone) answer.draft.finish = event.finish;
}

/// Those that are given back, best first if there was a choice.
std::vector<AnswerDraft*> RequestSampler::best_drafts() {
  if (beam_) return beam_->best(num_answers_, beam_finish_);
  std::vector<AnswerDraft*> drafts;
  for (SampledAnswer& answer : samples_) {
    forget_pending(answer);
    drafts.push_back(&answer.draft);
  }
  if (static_cast<std::int64_t>(drafts.size()) == num_answers_) return drafts;
  std::stable_sort(drafts.begin(), drafts.end(), [](const AnswerDraft* a, const AnswerDraft* b) {
    const bool a_failed = a->finish == FinishReason::kError;
    const bool b_failed = b->finish == FinishReason::kError;
    return a_failed != b_failed ? b_failed : a->mean_score() > b->mean_score();
  });
  drafts.resize(static_cast<std::size_t>(num_answers_));
  return drafts;
}

std::vector<Answer> RequestSampler::take_answers() {
  const std::vector<AnswerDraft*> drafts = best_drafts();
  std::vector<Answer> answers(drafts.size());
  for (std::size_t i = 0; i < drafts.size(); ++i) drafts[i]->copy_text(answers[i]);
  for (std::size_t i = 0; i < drafts.size(); ++i) drafts[i]->move_rest(answers[i]);  // nothing fails from here on
  return answers;
}

}  // namespace kvpage::engine
