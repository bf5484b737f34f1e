/// \file Beam: ranking, proposing and accepting.
#include "engine/sampling/beam.hpp"

#include <kvpage/base/assert.hpp>

#include <algorithm>
#include <cmath>

namespace kvpage::engine {

Beam::Beam(const BeamConfig& config, const AnswerDraft& empty)
    : config_(config),
      live_(static_cast<std::size_t>(config.width), empty),
      next_(static_cast<std::size_t>(config.width), empty),
      steps_(static_cast<std::size_t>(config.width)) {
  finished_.reserve(static_cast<std::size_t>(config.width) + 1);
}

bool Beam::ends(TokenId id) const noexcept {
  return std::binary_search(config_.stop_tokens.begin(), config_.stop_tokens.end(), id);
}

double Beam::final_score(const AnswerDraft& draft) const noexcept {
  return draft.score / std::pow(static_cast<double>(std::max<std::int64_t>(1, draft.num_drawn)), config_.length_penalty);
}

double Beam::best_possible(const AnswerDraft& draft) const noexcept {
  const std::int64_t shortest = std::min(draft.num_drawn + 1, config_.max_tokens);
  const std::int64_t length = config_.length_penalty > 0 ? config_.max_tokens : shortest;
  return draft.score / std::pow(static_cast<double>(length), config_.length_penalty);
}

bool Beam::needs_more(std::int64_t c, const RowResult& row, std::int64_t asked) const {
  if (std::ssize(row.continuations) < asked) return false;
  const AnswerText& text = live_[static_cast<std::size_t>(c)].text;
  std::int64_t num_going_on = 0;
  for (const Continuation& next : row.continuations) {
    if (!ends(next.id) && !text.would_stop(next.id) && ++num_going_on == config_.width) return false;
  }
  return true;
}

void Beam::rank_continuations(std::span<const RowResult> rows) {
  ranking_.clear();
  for (std::size_t c = 0; c < live_.size(); ++c) {
    if (!is_live(static_cast<std::int64_t>(c))) continue;
    for (const Continuation& next : rows[c].continuations) {
      ranking_.push_back({static_cast<std::uint32_t>(c), live_[c].score + next.score, next});
    }
  }
  const auto better = [](const Step& a, const Step& b) {
    if (a.score != b.score) return a.score > b.score;
    return a.source != b.source ? a.source < b.source : a.next.id < b.next.id;
  };
  std::sort(ranking_.begin(), ranking_.end(), better);
}

void Beam::extend(const Step& step, std::span<const RowResult> rows, AnswerDraft& out) const {
  out = live_[step.source];
  const DrawnToken token{.id = step.next.id, .ends = ends(step.next.id), .logprob = step.next.logprob, .score = step.next.score};
  out.append(token, rows[step.source].top, config_.keep_logprobs);
  if (!token.ends) out.text.push(token.id);
}

bool Beam::propose(std::span<const RowResult> rows) {
  KVPAGE_ASSERT(rows.size() == live_.size(), "a beam runs in lockstep: one row per answer");
  rank_continuations(rows);
  num_next_ = num_ended_ = 0;
  for (const Step& step : ranking_) {
    if (num_next_ == next_.size()) break;
    AnswerDraft& draft = next_[num_next_];
    extend(step, rows, draft);
    if (ends(step.next.id) || draft.text.stopped()) {
      if (num_ended_ == ended_.size()) ended_.emplace_back();
      std::swap(ended_[num_ended_], draft);
      ended_[num_ended_++].finish = FinishReason::kStop;
    } else {
      steps_[num_next_++] = step;
    }
  }
  fill_with_dead();
  proposed_ = true;
  proposes_end_ = is_over();
  return proposes_end_;
}

/// Every answer needs a token, also one that nothing can continue. It repeats another one and is never looked at again.
void Beam::fill_with_dead() {
  KVPAGE_ASSERT(!ranking_.empty(), "a row that could be ranked has a continuation");
  const Step repeated = num_next_ > 0 ? steps_[0] : ranking_[0];
  for (std::size_t c = num_next_; c < next_.size(); ++c) {
    steps_[c] = repeated;
    next_[c].score = -std::numeric_limits<double>::infinity();
  }
}

bool Beam::is_over() {
  if (num_next_ == 0) return true;
  scores_.clear();
  for (const AnswerDraft& draft : finished_) scores_.push_back(final_score(draft));
  for (std::size_t i = 0; i < num_ended_; ++i) scores_.push_back(final_score(ended_[i]));
  if (scores_.size() < live_.size()) return false;
  const auto worst = scores_.begin() + (config_.width - 1);
  std::nth_element(scores_.begin(), worst, scores_.end(), std::greater<>{});
  return std::all_of(next_.begin(), next_.begin() + static_cast<std::ptrdiff_t>(num_next_),
                     [&](const AnswerDraft& draft) { return best_possible(draft) <= *worst; });
}

void Beam::accept() noexcept {
  if (!proposed_) return;
  proposed_ = false;
  started_ = true;
  over_ = proposes_end_;
  live_.swap(next_);
  const auto better = [this](const AnswerDraft& a, const AnswerDraft& b) { return final_score(a) > final_score(b); };
  for (std::size_t i = 0; i < num_ended_; ++i) {
    const auto place = std::upper_bound(finished_.begin(), finished_.end(), ended_[i], better);
    finished_.insert(place, std::move(ended_[i]));
    if (finished_.size() > live_.size()) finished_.pop_back();
  }
  num_ended_ = 0;
}

std::vector<AnswerDraft*> Beam::best(std::int64_t n, FinishReason reason) {
  std::vector<AnswerDraft*> drafts;
  for (AnswerDraft& draft : finished_) drafts.push_back(&draft);
  for (AnswerDraft& draft : live_) {
    if (over_ || is_dead(draft)) continue;
    draft.finish = reason;
    drafts.push_back(&draft);
  }
  std::stable_sort(drafts.begin(), drafts.end(),
                   [this](const AnswerDraft* a, const AnswerDraft* b) { return final_score(*a) > final_score(*b); });
  if (static_cast<std::int64_t>(drafts.size()) > n) drafts.resize(static_cast<std::size_t>(n));
  return drafts;
}

}  // namespace kvpage::engine
