#include "engine/model/cache_groups.hpp"
#include "engine/padded_batch.hpp"
#include "tools/kvpage/cli_engine.hpp"
#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/interrupt.hpp"
#include "tools/kvpage/loaded_model.hpp"
#include "tools/kvpage/request_field.hpp"
#include "tools/kvpage/request_mix.hpp"
#include "tools/kvpage/request_report.hpp"
#include "tools/kvpage/request_run.hpp"
#include "tools/kvpage/run_trace.hpp"
#include "tools/kvpage/warm_up.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace kvpage::cli {
namespace {

/// Tokens of the longest request, and the answers of all.
struct Demand {
  std::int64_t longest_tokens = 0;
  std::int64_t num_answers = 0;

  explicit Demand(const std::vector<TimedRequest>& requests) {
    for (const auto& [arrival_ns, deadline_ns, request] : requests) {
      longest_tokens = std::max(longest_tokens, std::ssize(request.prompt_ids) + request.max_tokens);
      num_answers += request.num_candidates();
    }
  }
};

void require_tier(std::int64_t host_tier_bytes, std::int64_t page_bytes) {
  if (host_tier_bytes == 0 || host_tier_bytes >= page_bytes) return;
  throw Failure(kExitUsage, "--host-tier " + std::to_string(host_tier_bytes) + " is smaller than one page of this model, " +
                                std::to_string(page_bytes) + " bytes; 0 = none");
}

void require_pool(const ModelOptions& model, const engine::ModelSpec& spec) {
  const std::int64_t groups = engine::make_cache_groups(spec, model.context_tokens).num_groups();
  if (model.pool_blocks >= groups) return;
  throw Failure(kExitUsage, "--pool-blocks " + std::to_string(model.pool_blocks) + " is too small: this model has " +
                                std::to_string(groups) + " cache groups, and each needs a page");
}

/// Fills in the context and the pool where they were left open: the context that the longest request asks for, within the model's limit,
/// at least the usual one; a pool in which as many of the longest requests fit as may run at one time, at least one whole context.
/// Errors: Failure when the sizes that were given are too small, or the context too long, for this model.
void size_for(const std::vector<TimedRequest>& requests, const engine::ModelSpec& spec, BenchOptions& options) {
  ModelOptions& model = options.model;
  const Demand demand(requests);
  const std::int64_t limit = spec.context_limit_tokens;
  if (model.context_tokens == 0) model.context_tokens = std::min(limit, std::max(demand.longest_tokens, engine::kDefaultContextTokens));
  require_context(model.context_tokens, spec);
  engine::ModelConfig config = model_config(model, model.context_tokens, options.engine.budget_tokens);
  const KVPlan one_context = engine::plan_kv_pool(spec, config);
  require_tier(model.host_tier_bytes, one_context.page_bytes);
  if (model.pool_blocks > 0) return require_pool(model, spec);
  config.pool_tokens = std::clamp<std::int64_t>(demand.longest_tokens, 1, model.context_tokens);
  config.num_seqs = std::clamp<std::int64_t>(demand.num_answers, 1, options.engine.max_seqs);
  model.pool_blocks = std::max(one_context.num_blocks, engine::plan_kv_pool(spec, config).num_blocks);
}

/// Pads the batches of `engine` from now on.
void pad_batches(CliEngine& engine, std::optional<engine::PaddedBatch>& padding) {
  padding.emplace([&](const BatchPlan& pads) { return engine.model().forward(pads); }, engine.model().step_tokens());
  engine.on_plan([&](const BatchPlan& plan) {
    if (const Status status = padding->pad(plan); !status.ok()) throw Failure(kExitRun, status.message());
  });
}

int run_requests(const BenchOptions& options, const std::vector<TimedRequest>& requests) {
  auto trace_file = create_trace(options);
  LoadedModel m = load_model(options.model, options.model.context_tokens, options.engine.budget_tokens, options.engine.max_seqs);
  std::int64_t prompt_tokens = 0;
  for (const TimedRequest& timed : requests) prompt_tokens += std::ssize(timed.request.prompt_ids);
  warm_up(*m.model, prompt_tokens);
  engine::SystemEnv env;
  CliEngine engine(*m.model, engine_config(options.engine, options.model, std::ssize(requests)), policies_of(options.engine), env,
                   m.end_tokens, &m.tokenizer);
  std::optional<engine::PaddedBatch> padding;
  if (options.engine.batching == "static-padded") pad_batches(engine, padding);
  RunTrace trace(std::move(trace_file), options.trace, engine, env);
  const InterruptScope interrupt;
  const RunRecord record = RequestRun(engine, env, m.progress.get(), [&] { return interrupt.requested(); }).run(requests);
  trace.close();
  RequestReport report{.options = options, .model = m, .record = record};
  report.cache = engine.cache().counters();
  report.scheduler = engine.stats();
  report.num_blocks = m.model->pool_shape().num_blocks;
  report.budget_tokens = engine.limits().budget_tokens;
  if (padding) report.padded_rows = padding->padded_rows();
  options.json ? report.print_json() : report.print_text();
  return report.exit_code();
}

}  // namespace

int bench_requests(const BenchOptions& options) {
  // Before the model, and before its weights: a bad line should not cost a load.
  std::vector<RequestLine> lines;
  if (options.requests) lines = read_request_lines(read_text(options.requests), *options.requests);
  BenchOptions sized = options;
  std::vector<TimedRequest> requests;
  {
    const OpenModel open = open_model(options.model.model);
    requests = options.mix ? generate_mix(*options.mix, open.spec.vocab_size)
                           : to_requests(std::move(lines), *options.requests, open.text.tokenizer, open.spec.vocab_size);
    size_for(requests, open.spec, sized);
  }
  return run_requests(sized, requests);
}

}  // namespace kvpage::cli
