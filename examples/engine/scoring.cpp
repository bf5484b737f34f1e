#include "engine/scoring.hpp"

#include <kvpage/kernels/sample/cpu_log_probs.hpp>

#include <array>
#include <string>

namespace kvpage::engine {
namespace {

/// The law of a row, or why it has none (NaN logits end the request, they never become token 0).
Expected<LogSoftmax, RunError> law_of(std::span<const float> logits) {
  const auto law = LogSoftmax::of(logits.data(), static_cast<std::int64_t>(logits.size()));
  if (!law) return Unexpected{RunError{RunError::Kind::kKernel, "the model gave logits that are NaN or infinite"}};
  return *law;
}

std::vector<std::pair<TokenId, double>> top10(const LogSoftmax& law) {
  std::array<TokenLogProb, 10> best{};
  const auto n = static_cast<std::size_t>(law.top(best));
  std::vector<std::pair<TokenId, double>> result;
  for (std::size_t i = 0; i < n; ++i) result.emplace_back(best[i].id, best[i].log_prob);
  return result;
}

TokenScore score_token(const LogSoftmax& law, TokenId id) {
  const TokenLogProb best = law.argmax();
  return {id, law.log_prob(id), best.id, best.log_prob};
}

/// Collects scores row by row and keeps the first error, as visitors cannot return one.
class ScoreCollector {
 public:
  bool add(std::span<const float> logits, const auto& use) {
    const auto law = law_of(logits);
    if (!law) {
      error_ = law.error();
      return false;
    }
    use(*law);
    return true;
  }
  /// The outcome of an append whose visitor was this collector.
  Expected<void, RunError> outcome(Expected<void, RunError> appended) const {
    if (error_) return Unexpected{*error_};
    return appended;
  }

 private:
  std::optional<RunError> error_;
};

}  // namespace

Expected<Score, RunError> score(SequenceRunner& runner, std::span<const TokenId> prompt, std::span<const TokenId> continuation,
                                const ScoreOptions& options) {
  Score score;
  ScoreCollector collector;
  const auto n = static_cast<std::int64_t>(prompt.size());
  // The scores of what follows the last token computed: the top 10 after the prompt, and the next continuation token.
  const auto score_next = [&](const LogSoftmax& law, std::size_t next) {
    if (score.first_top10.empty()) score.first_top10 = top10(law);
    if (next < continuation.size()) score.continuation.push_back(score_token(law, continuation[next]));
  };
  const LogitRows rows = options.prompt_nll ? LogitRows::kAll : LogitRows::kLast;
  const auto started = runner.start(prompt, rows, [&](std::int64_t i, std::span<const float> logits) {
    return collector.add(logits, [&](const LogSoftmax& law) {
      if (i + 1 < n) score.prompt_nll -= law.log_prob(prompt[static_cast<std::size_t>(i) + 1]);
      else score_next(law, 0);
    });
  });
  if (const auto outcome = collector.outcome(started); !outcome) return Unexpected{outcome.error()};
  for (std::size_t c = 0; c + 1 < continuation.size(); ++c) {
    const auto stepped = runner.append(continuation.subspan(c, 1), LogitRows::kLast, [&](std::int64_t, std::span<const float> logits) {
      return collector.add(logits, [&](const LogSoftmax& law) { score_next(law, c + 1); });
    });
    if (const auto outcome = collector.outcome(stepped); !outcome) return Unexpected{outcome.error()};
  }
  return score;
}

Expected<Score, RunError> score(LanguageModel& model, std::span<const TokenId> prompt, std::span<const TokenId> continuation,
                                std::int64_t chunk_tokens) {
  SequenceRunner runner(model);
  runner.set_chunk_tokens(chunk_tokens);
  return score(runner, prompt, continuation);
}

Expected<PerplexityResult, RunError> perplexity(LanguageModel& model, std::span<const TokenId> ids, std::int64_t window_tokens,
                                                std::optional<TokenId> bos,
                                                const std::function<void(const PerplexityResult&, std::int64_t)>& on_window) {
  const auto window = static_cast<std::size_t>(window_tokens);
  const std::size_t num_windows = ids.size() / window;
  PerplexityResult result;
  SequenceRunner runner(model, false);
  for (std::size_t w = 0; w < num_windows; ++w) {
    std::vector<TokenId> tokens(ids.begin() + static_cast<std::ptrdiff_t>(w * window),
                                ids.begin() + static_cast<std::ptrdiff_t>((w + 1) * window));
    const std::vector<TokenId> targets = tokens;
    if (bos) tokens.front() = *bos;
    ScoreCollector collector;
    const auto first = static_cast<std::int64_t>(window / 2);
    // The last token of a window has no target; the first half is context only.
    const auto visit = [&](std::int64_t i, std::span<const float> logits) {
      if (i < first || i + 1 >= window_tokens) return true;
      return collector.add(logits, [&](const LogSoftmax& law) {
        result.nll_sum -= law.log_prob(targets[static_cast<std::size_t>(i) + 1]);
        ++result.scored_tokens;
      });
    };
    const auto started = runner.start(tokens, LogitRows::kAll, visit);
    if (const auto outcome = collector.outcome(started); !outcome) return Unexpected{outcome.error()};
    ++result.windows;
    if (on_window) on_window(result, static_cast<std::int64_t>(num_windows));
  }
  return result;
}

}  // namespace kvpage::engine
