#include "engine/generation.hpp"
#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/json_ids.hpp"
#include "tools/kvpage/loaded_model.hpp"
#include "tools/kvpage/profile_report.hpp"
#include "tools/kvpage/random_ids.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace kvpage::cli {
namespace {

double rate(std::int64_t count, double seconds) { return seconds > 0 ? static_cast<double>(count) / seconds : 0; }

void print_json(const BenchOptions& o, const LoadedModel& m, const std::vector<TokenId>& prompt, const engine::Generation& g,
                std::int64_t positions, ProfileReport* profile) {
  const std::string name = nlohmann::json(m.model->spec().name).dump();
  std::printf("{\"model\": %s, \"kernels\": \"%s\", \"kv_type\": \"%.*s\", \"threads\": %d, ", name.c_str(), o.model.kernels.c_str(),
              static_cast<int>(m.model->kv_type().size()), m.model->kv_type().data(), m.model->num_threads());
  std::printf("\"prompt_tokens\": %lld, \"depth_tokens\": %lld, \"generated_tokens\": %zu, \"positions_computed\": %lld, ",
              static_cast<long long>(o.prompt_tokens), static_cast<long long>(o.depth_tokens), g.ids.size(),
              static_cast<long long>(positions));
  std::printf("\"load_s\": %.9g, \"prefill_s\": %.9g, \"decode_s\": %.9g, \"decode_steps\": %lld, ", m.load_s, g.prefill_s, g.decode_s,
              static_cast<long long>(g.decode_steps));
  if (profile) std::printf("\"profile\": %s, ", profile->json().dump().c_str());
  std::printf("\"prompt_ids\": %s, \"output_ids\": %s}\n", json_array(prompt).c_str(), json_array(g.ids).c_str());
}

void print_text(const BenchOptions& o, const LoadedModel& m, const engine::Generation& g) {
  std::printf("load     %10.3f s\n", m.load_s);
  std::printf("prefill  %10.3f s  %10.1f tok/s  (%lld tokens at depth %lld)\n", g.prefill_s, rate(o.prompt_tokens, g.prefill_s),
              static_cast<long long>(o.prompt_tokens), static_cast<long long>(o.depth_tokens));
  std::printf("decode   %10.3f s  %10.1f tok/s  (%lld steps)\n", g.decode_s, rate(g.decode_steps, g.decode_s),
              static_cast<long long>(g.decode_steps));
}

}  // namespace

int bench(const BenchOptions& options) {
  if (options.requests || options.mix) return bench_requests(options);
  if (options.batch > 0) return bench_batch(options);
  const std::int64_t context = options.depth_tokens + options.prompt_tokens + options.generate_tokens;
  LoadedModel m = load_model(options.model, context, engine::kDefaultStepTokens);
  const std::int64_t vocab_size = m.model->spec().vocab_size;
  engine::SequenceRunner runner(*m.model, {.share_prefixes = options.model.prefix_cache});
  const auto ids = random_ids(options.seed, options.prompt_tokens + options.depth_tokens, vocab_size);
  const std::vector<TokenId> prompt(ids.begin(), ids.begin() + options.prompt_tokens);
  const std::vector<TokenId> depth(ids.begin() + options.prompt_tokens, ids.end());
  if (!depth.empty()) {
    const auto filled = runner.append(depth, engine::LogitRows::kNone);
    if (!filled) throw_run_failure(filled.error());
  }
  std::optional<ProfileReport> profile;
  if (options.profile) profile.emplace(*m.model);
  engine::GenerationOptions generation;
  generation.sampling.temperature = 0;
  // The prompt's own logits give the first token: N tokens take N - 1 decode steps. `--gen 0` times the prompt alone.
  generation.max_tokens = std::max<std::int64_t>(options.generate_tokens, 1);
  auto result = engine::generate(runner, depth, prompt, generation, {}, {});
  if (!result) throw_run_failure(result.error());
  if (options.generate_tokens == 0) result->ids.clear();
  if (options.json) {
    print_json(options, m, prompt, *result, runner.computed_positions(), profile ? &*profile : nullptr);
  } else {
    print_text(options, m, *result);
    if (profile) std::printf("%s", profile->text().c_str());
  }
  return kExitOk;
}

}  // namespace kvpage::cli
