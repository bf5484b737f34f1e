#include "engine/scoring.hpp"
#include "tools/kvpage/json_ids.hpp"
#include "tools/kvpage/loaded_model.hpp"
#include "tools/kvpage/rates.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace kvpage::cli {
namespace {

/// One line of the input.
struct ScoreLine {
  std::string place;  ///< "file:line"
  std::vector<TokenId> prompt;
  std::vector<TokenId> continuation;

  /// Tokens that are computed: all but the last one, whose own successor nobody asks for.
  std::int64_t num_tokens() const noexcept { return std::ssize(prompt) + std::max<std::int64_t>(0, std::ssize(continuation) - 1); }
};

std::vector<ScoreLine> read_lines(const std::string& text, const std::string& name) {
  std::vector<ScoreLine> lines;
  for_each_json_line(text, name, [&](const nlohmann::json& line, std::int64_t number) {
    if (!line.is_object()) throw std::runtime_error("each line must be an object");
    const auto ids = [&](const char* key) {
      if (!line.contains(key)) throw std::runtime_error(std::string(key) + " is missing");
      return read_ids(line[key], key);
    };
    lines.push_back({name + ":" + std::to_string(number), ids("prompt_ids"), ids("continuation_ids")});
    if (lines.back().prompt.empty()) throw std::runtime_error("prompt_ids must not be empty");
  });
  return lines;
}

/// Errors: Failure that names the line when the model lacks an id, or the context has no room.
void require_fits(const ScoreLine& line, std::int64_t context_tokens, const engine::ModelSpec& spec) {
  require_in_vocabulary(line.prompt, spec.vocab_size, line.place + ": prompt_ids");
  require_in_vocabulary(line.continuation, spec.vocab_size, line.place + ": continuation_ids");
  if (line.num_tokens() <= context_tokens) return;
  throw Failure(kExitDoesNotFit, line.place + ": " + std::to_string(line.num_tokens()) + " tokens do not fit into a context of " +
                                     std::to_string(context_tokens) + "; " + context_advice(context_tokens, spec));
}

void print(const engine::Score& score, bool prompt_nll) {
  if (prompt_nll) {
    std::printf("{\"prompt_nll\": %.17g, \"continuation\": [", score.prompt_nll);
  } else {
    std::printf("{\"continuation\": [");
  }
  const char* separator = "";
  for (const engine::TokenScore& token : score.continuation) {
    std::printf("%s{\"id\": %u, \"logprob\": %.17g, \"argmax\": %u, \"argmax_logprob\": %.17g}", separator, token.id,
                finite_logprob(token.logprob), token.argmax, finite_logprob(token.argmax_logprob));
    separator = ", ";
  }
  std::printf("], \"first_top10\": [");
  separator = "";
  for (const auto& [id, logprob] : score.first_top10) {
    std::printf("%s[%u, %.17g]", separator, id, finite_logprob(logprob));
    separator = ", ";
  }
  std::printf("]}\n");
  std::fflush(stdout);
}

}  // namespace

int score(const ScoreOptions& options) {
  const std::string text = read_text(options.input);
  const auto lines = read_lines(text, options.input);
  OpenModel open = open_model(options.model.model);
  const std::int64_t context_tokens = context_of(options.model.context_tokens, open.spec);
  for (const ScoreLine& line : lines) require_fits(line, context_tokens, open.spec);
  LoadedModel m = load_model(std::move(open), options.model, options.model.context_tokens,
                             std::max(options.chunk_tokens, engine::kDefaultStepTokens));
  engine::SequenceRunner runner(*m.model, options.model.prefix_cache);
  runner.set_chunk_tokens(options.chunk_tokens);
  for (const ScoreLine& line : lines) {
    const auto result = engine::score(runner, line.prompt, line.continuation, {.prompt_nll = !options.continuation_only});
    if (!result) throw_run_failure(result.error());
    print(*result, !options.continuation_only);
  }
  return kExitOk;
}

}  // namespace kvpage::cli
