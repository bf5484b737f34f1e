#include "engine/scoring.hpp"
#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/loaded_model.hpp"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <sstream>

namespace kvpage::cli {
namespace {

/// One line of the input.
struct ScoreLine {
  std::vector<TokenId> prompt;
  std::vector<TokenId> continuation;
};

std::vector<TokenId> read_ids(const nlohmann::json& line, const char* key, bool may_be_empty, std::int64_t vocab_size) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_array()) throw std::runtime_error(std::string(key) + " must be an array of token ids");
  std::vector<TokenId> ids;
  for (const auto& element : *found) {
    const bool is_id = element.is_number_unsigned() && element.get<std::uint64_t>() < static_cast<std::uint64_t>(vocab_size);
    if (!is_id) throw std::runtime_error(std::string(key) + " must hold ids in [0, " + std::to_string(vocab_size) + ")");
    ids.push_back(element.get<TokenId>());
  }
  if (ids.empty() && !may_be_empty) throw std::runtime_error(std::string(key) + " must not be empty");
  return ids;
}

std::vector<ScoreLine> read_lines(const std::string& text, const std::string& name, std::int64_t vocab_size) {
  std::vector<ScoreLine> lines;
  std::istringstream stream(text);
  std::string line;
  for (int number = 1; std::getline(stream, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      const auto parsed = nlohmann::json::parse(line);
      if (!parsed.is_object()) throw std::runtime_error("each line must be an object");
      lines.push_back({read_ids(parsed, "prompt_ids", false, vocab_size), read_ids(parsed, "continuation_ids", true, vocab_size)});
    } catch (const std::exception& error) {
      throw Failure(kExitUsage, name + ":" + std::to_string(number) + ": " + error.what());
    }
  }
  return lines;
}

void print(const engine::Score& score) {
  std::printf("{\"prompt_nll\": %.17g, \"continuation\": [", score.prompt_nll);
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
  for (const ScoreLine& line : lines) {
    const auto result = engine::score(*m.model, line.prompt, line.continuation, options.chunk_tokens);
    if (!result) throw_run_failure(result.error());
    print(*result);
  }
  return kExitOk;
}

}  // namespace kvpage::cli
