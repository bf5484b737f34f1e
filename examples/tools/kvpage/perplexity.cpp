#include "engine/scoring.hpp"
#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/loaded_model.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace kvpage::cli {

int perplexity(const PerplexityOptions& options) {
  const std::string text = read_text(options.file);
  OpenModel open = open_model(options.model.model);
  require_context(options.window_tokens, open.spec);
  const auto ids = encode_or_warn(open.text.tokenizer, text, {.add_special = true});
  const auto num_ids = static_cast<std::int64_t>(ids.size());
  if (num_ids < 2 * options.window_tokens) {
    throw Failure(kExitUsage, "perplexity needs at least two windows: the text has " + std::to_string(num_ids) + " tokens, two windows " +
                                  std::to_string(2 * options.window_tokens) + "; use a longer text or a smaller --ctx");
  }
  LoadedModel m = load_model(std::move(open), options.model, options.window_tokens,
                             std::min(options.window_tokens, engine::kDefaultStepTokens));
  const auto bos = m.tokenizer.add_bos() ? m.tokenizer.bos() : std::nullopt;
  const auto result = engine::perplexity(*m.model, ids, options.window_tokens, bos, [&](const engine::PerplexityResult& r, std::int64_t n) {
    m.progress->show("scoring", r.windows, n, "windows");
  });
  if (!result) throw_run_failure(result.error());
  const double mean = result->nll_sum / static_cast<double>(result->scored_tokens);
  const double perplexity = std::exp(mean);
  char number[40] = "null";  // beyond what a double holds
  if (std::isfinite(perplexity)) std::snprintf(number, sizeof number, "%.17g", perplexity);
  std::printf("{\"perplexity\": %s, \"mean_nll\": %.17g, \"scored_tokens\": %lld, \"windows\": %lld}\n", number, mean,
              static_cast<long long>(result->scored_tokens), static_cast<long long>(result->windows));
  return kExitOk;
}

}  // namespace kvpage::cli
