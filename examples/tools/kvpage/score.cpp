#include "engine/scoring.hpp"
#include "tools/kvpage/json_ids.hpp"
#include "tools/kvpage/loaded_model.hpp"

#include <cstdio>

namespace kvpage::cli {
namespace {

/// One line of the input.
struct ScoreLine {
  std::vector<TokenId> prompt;
  std::vector<TokenId> continuation;
};

std::vector<ScoreLine> read_lines(const std::string& text, const std::string& name, std::int64_t vocab_size) {
  std::vector<ScoreLine> lines;
  for_each_json_line(text, name, [&](const nlohmann::json& line) {
    if (!line.is_object()) throw std::runtime_error("each line must be an object");
    const auto ids = [&](const char* key) { return read_ids(line.value(key, nlohmann::json()), key, vocab_size); };
    lines.push_back({ids("prompt_ids"), ids("continuation_ids")});
    if (lines.back().prompt.empty()) throw std::runtime_error("prompt_ids must not be empty");
  });
  return lines;
}

void print(const engine::Score& score, bool prompt_nll) {
  if (prompt_nll) {
    std::printf("{\"prompt_nll\": %.17g, \"continuation\": [", score.prompt_nll);
  } else {
    std::printf("{\"continuation\": [");
  }
  const char* separator = "";
  for (const engine::TokenScore& token : score.continuation) {
    std::printf("%s{\"id\": %u, \"logprob\": %.17g, \"argmax\": %u, \"argmax_logprob\": %.17g}", separator, token.id, token.logprob,
                token.argmax, token.argmax_logprob);
    separator = ", ";
  }
  std::printf("], \"first_top10\": [");
  separator = "";
  for (const auto& [id, logprob] : score.first_top10) {
    std::printf("%s[%u, %.17g]", separator, id, logprob);
    separator = ", ";
  }
  std::printf("]}\n");
  std::fflush(stdout);
}

}  // namespace

int score(const ScoreOptions& options) {
  const std::string text = read_text(options.input);
  LoadedModel m = load_model(options.model, options.model.context_tokens, std::max(options.chunk_tokens, engine::kDefaultStepTokens));
  const auto lines = read_lines(text, options.input, m.model->spec().vocab_size);
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
