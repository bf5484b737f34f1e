#include "engine/own_memory.hpp"
#include "tools/kvpage/byte_text.hpp"
#include "tools/kvpage/cli_engine.hpp"
#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/json_ids.hpp"
#include "tools/kvpage/loaded_model.hpp"
#include "tools/kvpage/profile_report.hpp"
#include "tools/kvpage/random_ids.hpp"
#include "tools/kvpage/rates.hpp"
#include "tools/kvpage/warm_up.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvpage::cli {
namespace {

/// One request from its submission to its end.
struct Measured {
  engine::GenerationResult result;

  double prefill_s() const { return seconds(result.metrics.arrival_ns, result.metrics.first_token_ns); }
  /// Nothing when the first token was the only one.
  std::optional<double> decode_s() const {
    return decode_steps() > 0 ? std::optional(seconds(result.metrics.first_token_ns, result.metrics.finished_ns)) : std::nullopt;
  }
  std::int64_t decode_steps() const { return std::ssize(result.answers.front().ids) - 1; }

 private:
  static double seconds(std::int64_t from_ns, std::int64_t to_ns) { return static_cast<double>(to_ns - from_ns) * 1e-9; }
};

/// Errors: Failure when the engine refuses the request or the model fails.
Measured measure(CliEngine& engine, std::vector<TokenId> prompt_ids, std::int64_t max_tokens) {
  engine::GenerationRequest request;
  request.prompt_ids = std::move(prompt_ids);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  request.ignore_eos = true;
  if (const auto ticket = engine.submit(request); !ticket) throw Failure(kExitDoesNotFit, describe(ticket.error()));
  while (true) {
    const engine::StepOutput& output = engine.step();
    if (!output.status.ok()) throw Failure(kExitRun, output.status.message());
    if (!output.finished.empty()) return {output.finished.front()};
  }
}

void print_json(const BenchOptions& o, const LoadedModel& m, const std::vector<TokenId>& prompt, const Measured& timed,
                std::int64_t positions, ProfileReport* profile) {
  const std::vector<TokenId> output = o.generate_tokens == 0 ? std::vector<TokenId>{} : timed.result.answers.front().ids;
  const std::string name = nlohmann::json(m.model->spec().name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::printf("{\"model\": %s, \"kernels\": \"%s\", \"kv_type\": \"%.*s\", \"threads\": %d, ", name.c_str(), o.model.kernels.c_str(),
              static_cast<int>(m.model->kv_type().size()), m.model->kv_type().data(), m.model->num_threads());
  std::printf("\"prompt_tokens\": %lld, \"depth_tokens\": %lld, \"generated_tokens\": %zu, \"positions_computed\": %lld, ",
              static_cast<long long>(o.prompt_tokens), static_cast<long long>(o.depth_tokens), output.size(),
              static_cast<long long>(positions));
  const std::string decode_s = timed.decode_s() ? figure_text("%.9g", 0, timed.decode_s()) : "null";
  std::printf("\"load_s\": %.9g, \"prefill_s\": %.9g, \"decode_s\": %s, \"decode_steps\": %lld, ", m.load_s, timed.prefill_s(),
              decode_s.c_str(), static_cast<long long>(timed.decode_steps()));
  const auto own_bytes = engine::own_memory_bytes();  // nothing that the request used has been given back yet
  std::printf("\"own_memory_bytes\": %s, ", own_bytes ? std::to_string(*own_bytes).c_str() : "null");
  if (profile) std::printf("\"profile\": %s, ", profile->json().dump().c_str());
  std::printf("\"prompt_ids\": %s, \"output_ids\": %s}\n", json_array(prompt).c_str(), json_array(output).c_str());
}

void print_text(const BenchOptions& o, const LoadedModel& m, const Measured& timed) {
  std::printf("load     %10.3f s\n", m.load_s);
  std::printf("prefill  %10.3f s  %s tok/s  (%lld tokens at depth %lld)\n", timed.prefill_s(),
              figure_text("%10.1f", 10, rate(o.prompt_tokens, timed.prefill_s())).c_str(), static_cast<long long>(o.prompt_tokens),
              static_cast<long long>(o.depth_tokens));
  if (const auto bytes = engine::own_memory_bytes()) std::printf("memory   %12s of its own\n", byte_text(*bytes).c_str());
  if (!timed.decode_s()) return;
  std::printf("decode   %10.3f s  %s tok/s  (%lld steps)\n", *timed.decode_s(),
              figure_text("%10.1f", 10, rate(timed.decode_steps(), *timed.decode_s())).c_str(),
              static_cast<long long>(timed.decode_steps()));
}

}  // namespace

int bench(const BenchOptions& options) {
  if (options.requests || options.mix) return bench_requests(options);
  if (options.batch > 0) return bench_batch(options);
  // The prompt's own logits give the first token: N tokens take N - 1 decode steps. `--gen 0` times the prompt alone.
  const std::int64_t max_tokens = std::max<std::int64_t>(options.generate_tokens, 1);
  const std::int64_t context = options.depth_tokens + options.prompt_tokens + max_tokens;
  LoadedModel m = load_model_for(options.model, 1, context, engine::kDefaultStepTokens);
  warm_up(*m.model, options.depth_tokens == 0 ? options.prompt_tokens : 0);  // else the depth is one
  engine::SystemEnv env;
  EngineOptions limits;
  limits.max_seqs = 1;
  CliEngine engine(*m.model, engine_config(limits, options.model, 1), policies_of(limits), env, {}, nullptr);
  const auto ids = random_ids(options.seed, options.prompt_tokens + options.depth_tokens, m.model->spec().vocab_size);
  const std::vector<TokenId> prompt(ids.begin(), ids.begin() + options.prompt_tokens);
  std::vector<TokenId> whole(ids.begin() + options.prompt_tokens, ids.end());
  std::int64_t positions = 0;
  if (!whole.empty()) positions += measure(engine, whole, 1).result.metrics.positions_computed;
  whole.insert(whole.end(), prompt.begin(), prompt.end());
  std::optional<ProfileReport> profile;
  if (options.profile) profile.emplace(*m.model);
  const Measured timed = measure(engine, std::move(whole), max_tokens);
  positions += timed.result.metrics.positions_computed;
  if (options.json) {
    print_json(options, m, prompt, timed, positions, profile ? &*profile : nullptr);
  } else {
    print_text(options, m, timed);
    if (profile) std::printf("%s", profile->text().c_str());
  }
  return kExitOk;
}

}  // namespace kvpage::cli
