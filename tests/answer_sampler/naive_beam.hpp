/// \file naive_beam: beam search by the book, in doubles, without any shortcut.
#pragma once

#include "answer_sampler/engine_fixture.hpp"

#include <kvpage/kernels/sample/reference.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace kvpage_test {

struct NaiveHypothesis {
  Ids ids{};
  double score = 0;        ///< adjusted logits
  double raw = 0;          ///< raw logits, of `ids`
  std::int64_t length = 0;  ///< with its end token
  bool ended = false;
  std::string text{};       ///< tokens are bytes; without what was before a stop string that came too early
};

/// log-softmax of a row; -infinity stays.
inline std::vector<double> log_softmax(const std::vector<float>& logits) {
  const double max = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - max);
  std::vector<double> result;
  for (const float x : logits) result.push_back(static_cast<double>(x) - max - std::log(sum));
  return result;
}

class NaiveBeam {
 public:
  NaiveBeam(const GenerationRequest& request, const TableModelConfig& model, const LogitsOf& logits_of, Ids stop_tokens)
      : request_(request),
        vocab_size_(model.vocab_size),
        sees_history_(model.sees_history),
        logits_of_(logits_of),
        stop_tokens_(std::move(stop_tokens)) {}

  std::vector<NaiveHypothesis> best() {
    std::vector<NaiveHypothesis> live(1);
    std::vector<NaiveHypothesis> done;
    for (std::int64_t step = 0; step < request_.max_tokens && !live.empty(); ++step) {
      std::vector<NaiveHypothesis> next;
      for (const Candidate& candidate : ranked(live)) {
        if (static_cast<std::int64_t>(next.size()) == request_.beam_width) break;
        const NaiveHypothesis h = extended(live[candidate.source], candidate);
        (h.ended ? done : next).push_back(h);
      }
      live = next;
    }
    done.insert(done.end(), live.begin(), live.end());
    std::stable_sort(done.begin(), done.end(), [&](const auto& a, const auto& b) { return final_score(a) > final_score(b); });
    done.resize(std::min(done.size(), static_cast<std::size_t>(request_.n)));
    return done;
  }

 private:
  struct Candidate {
    std::size_t source;
    TokenId id;
    double score;
    double logprob;
    double raw;
  };

  double final_score(const NaiveHypothesis& h) const { return h.score / std::pow(static_cast<double>(h.length), request_.length_penalty); }
  bool is_stop(TokenId id) const { return std::find(stop_tokens_.begin(), stop_tokens_.end(), id) != stop_tokens_.end(); }

  NaiveHypothesis extended(const NaiveHypothesis& from, const Candidate& candidate) const {
    NaiveHypothesis h = from;
    h.score = candidate.score;
    ++h.length;
    h.ended = is_stop(candidate.id);
    if (h.ended) return h;
    h.ids.push_back(candidate.id);
    h.raw += candidate.raw;
    h.text += static_cast<char>(candidate.id);
    const bool complete = std::any_of(request_.stop_strings.begin(), request_.stop_strings.end(), [&](const std::string& stop) {
      return h.text.size() >= stop.size() && h.text.compare(h.text.size() - stop.size(), stop.size(), stop) == 0;
    });
    if (complete && h.length < request_.min_tokens) h.text.clear();
    h.ended = complete && h.length >= request_.min_tokens;
    return h;
  }

  std::vector<Candidate> ranked(const std::vector<NaiveHypothesis>& live) const {
    std::vector<Candidate> all;
    for (std::size_t source = 0; source < live.size(); ++source) {
      const NaiveHypothesis& h = live[source];
      std::vector<float> row(static_cast<std::size_t>(vocab_size_));
      const auto position = static_cast<std::int64_t>(request_.prompt_ids.size() + h.ids.size()) - 1;
      Ids history = request_.prompt_ids;
      history.insert(history.end(), h.ids.begin(), h.ids.end());
      logits_of_(sees_history_ ? digest_of(history) : history.back(), position, row);
      kvpage::SampleArgs args{.logits = row.data(), .vocab_size = vocab_size_, .params = request_.sampling,
                              .prompt_ids = request_.prompt_ids, .output_ids = h.ids};
      args.params.logit_bias = request_.logit_bias;
      if (h.length < request_.min_tokens) args.banned = stop_tokens_;
      const std::vector<double> adjusted = log_softmax(kvpage::reference::adjusted_logits(args));
      const std::vector<double> raw = log_softmax(row);
      for (std::size_t id = 0; id < row.size(); ++id) {
        if (!std::isfinite(adjusted[id])) continue;
        all.push_back({source, static_cast<TokenId>(id), h.score + adjusted[id], adjusted[id], raw[id]});
      }
    }
    std::sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
      if (a.score != b.score) return a.score > b.score;
      return a.source != b.source ? a.source < b.source : a.id < b.id;
    });
    return all;
  }

  GenerationRequest request_;
  std::int64_t vocab_size_;
  bool sees_history_;
  LogitsOf logits_of_;
  Ids stop_tokens_;
};

}  // namespace kvpage_test
