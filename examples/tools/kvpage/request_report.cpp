#include "tools/kvpage/request_report.hpp"

#include "tools/kvpage/loaded_model.hpp"
#include "tools/kvpage/rates.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace kvpage::cli {
namespace {

using Json = nlohmann::ordered_json;

const char* const kFault = "a token could not be drawn: its logits are NaN or infinite, or none is allowed";

Json json_of(const std::optional<Percentiles>& p) {
  if (!p) return {{"p50", nullptr}, {"p90", nullptr}, {"p99", nullptr}};
  return {{"p50", p->p50}, {"p90", p->p90}, {"p99", p->p99}};
}

Json json_of(const std::vector<engine::TokenLogprobs>& logprobs) {
  Json list = Json::array();
  for (const engine::TokenLogprobs& token : logprobs) {
    Json top = Json::array();
    for (const engine::TokenLogprob& other : token.top) top.push_back({other.id, finite_logprob(other.logprob)});
    list.push_back({{"id", token.chosen.id}, {"logprob", finite_logprob(token.chosen.logprob)}, {"top", top}});
  }
  return list;
}

/// What an answer is, without its score.
Json json_of(const engine::Answer& answer) {
  Json json{{"output_ids", answer.ids}, {"text", answer.text}, {"finish_reason", engine::name_of(answer.finish)}};
  if (!answer.logprobs.empty()) json["logprobs"] = json_of(answer.logprobs);
  return json;
}

Json json_of(const Refusal& refusal) {
  return {{"kind", engine::name_of(refusal.kind)}, {"message", describe(refusal)}, {"value", refusal.value}, {"limit", refusal.limit},
          {"unit", refusal.unit}};
}

Json json_of(const RequestOutcome& outcome) {
  Json json{{"id", outcome.request->request.name}, {"prompt_tokens", outcome.request->request.prompt_ids.size()},
            {"arrival_s", static_cast<double>(outcome.request->arrival_ns) * 1e-9}};
  if (outcome.refusal) json["error"] = json_of(*outcome.refusal);
  if (!outcome.result) {
    for (const char* key : {"cached_tokens", "ttft_s", "time_per_token_s", "end_to_end_s"}) json[key] = nullptr;
    return json;
  }
  const engine::GenerationResult& result = *outcome.result;
  if (failed(result)) json["error"] = {{"kind", "failed"}, {"message", kFault}};
  json.update(json_of(result.answers.front()));
  // Sums are there when somebody wanted them: for the list of log-probabilities, or to choose between answers.
  const bool has_sums = outcome.request->request.num_logprobs >= 0 || !outcome.request->request.streams();
  if (result.answers.size() > 1) {
    for (const engine::Answer& answer : result.answers) {
      Json one = json_of(answer);
      one["sum_logprob"] = has_sums ? Json(answer.sum_logprob) : Json(nullptr);
      json["answers"].push_back(std::move(one));
    }
  }
  const engine::RequestMetrics& m = result.metrics;
  const RequestTimes times = times_of(outcome);
  const Json cached_tokens = m.first_token_ns > 0 ? Json(m.cached_tokens) : Json(nullptr);
  json.update({{"seed", result.seed}, {"cached_tokens", cached_tokens}, {"positions_computed", m.positions_computed},
               {"recomputed_tokens", m.recomputed_tokens},
               {"preempted", {{"keep", m.preempted_keep}, {"demote", m.preempted_demote}, {"recompute", m.preempted_recompute}}},
               {"ttft_s", or_null<Json>(times.ttft_s)}, {"time_per_token_s", or_null<Json>(times.time_per_token_s)},
               {"end_to_end_s", times.end_to_end_s}});
  return json;
}

Json totals_of(const RequestReport& r) {
  const Goals goals{r.options.slo_ttft_ms, r.options.slo_tpot_ms};
  const RunTotals t = total(r.record, goals);
  const engine::CacheCounters& c = r.cache;
  const SchedulerStats& s = r.scheduler;
  Json json{{"requests", std::ssize(r.record.outcomes) - t.not_run}, {"failed", t.failed}, {"refused", t.refused},
            {"interrupted", r.record.interrupted}, {"not_run", t.not_run}, {"wall_s", r.record.wall_s},
            {"prompt_tokens", t.prompt_tokens}, {"cached_tokens", t.cached_tokens}, {"positions_computed", t.positions_computed},
            {"output_tokens", t.output_tokens}, {"output_tokens_per_s", or_null<Json>(t.output_tokens_per_s)},
            {"goodput", or_null<Json>(t.goodput)}, {"goodput_unit", goals.any() ? "requests/s" : "tokens/s"}, {"ttft_s", json_of(t.ttft_s)},
            {"time_per_token_s", json_of(t.time_per_token_s)}, {"end_to_end_s", json_of(t.end_to_end_s)}};
  json.update({{"steps", s.steps}, {"aborted_steps", s.aborted_steps}, {"step_tokens", s.tokens},
               {"mean_budget_utilisation", or_null<Json>(share(t.mean_step_tokens, r.budget_tokens))},
               {"peak_budget_utilisation", or_null<Json>(share(t.peak_step_tokens, r.budget_tokens))},
               {"num_blocks", r.num_blocks}, {"peak_used_blocks", c.peak_used_blocks},
               {"mean_utilisation", or_null<Json>(share(t.mean_used_blocks, r.num_blocks))},
               {"peak_utilisation", or_null<Json>(share(static_cast<double>(c.peak_used_blocks), r.num_blocks))}, {"forks", s.forks},
               {"copies", c.copies}, {"evictions", c.evictions}, {"demoted", c.demoted}, {"promoted", c.promoted},
               {"failed_loads", c.failed_loads}, {"window_released", s.window_released}, {"recomputed_tokens", s.recomputed_tokens},
               {"cascade_tokens", r.record.cascade_tokens},
               {"preempted",
                {{"keep", s.preempted_keep}, {"demote", s.preempted_demote}, {"recompute", s.preempted_recompute}}}});
  if (r.padded_rows) json["padded_rows"] = *r.padded_rows;
  return json;
}

}  // namespace

ExitCode RequestReport::exit_code() const {
  const auto broken = [](const RequestOutcome& outcome) { return outcome.result && failed(*outcome.result); };
  return record.interrupted || std::any_of(record.outcomes.begin(), record.outcomes.end(), broken) ? kExitRun : kExitOk;
}

void RequestReport::print_json() const {
  Json requests = Json::array();
  for (const RequestOutcome& outcome : record.outcomes) {
    if (outcome.refusal || outcome.result) requests.push_back(json_of(outcome));
  }
  const engine::LanguageModel& m = *model.model;
  const EngineOptions& e = options.engine;
  Json all{{"model", m.spec().name}, {"kernels", options.model.kernels}, {"isa", m.isa()}, {"kv_type", m.kv_type()},
           {"threads", m.num_threads()}, {"block_size", m.pool_shape().block_size}, {"cache_groups", m.cache_groups().num_groups()},
           {"layers_per_page", m.cache_groups().layers_per_page}, {"page_bytes", m.page_bytes()},
           {"context_tokens", m.context_tokens()}, {"max_seqs", e.max_seqs}, {"budget_tokens", budget_tokens}, {"batching", e.batching},
           {"order", e.order}, {"admission", e.admission}, {"preempt", e.preemption}, {"prefix_cache", options.model.prefix_cache},
           {"evict", e.evict}, {"host_tier_bytes", options.model.host_tier_bytes}, {"load_s", model.load_s}, {"requests", requests},
           {"totals", totals_of(*this)}};
  if (options.steps) {
    Json steps = Json::array();
    for (const StepRecord& s : record.steps) steps.push_back({s.num_tokens, s.num_seqs, static_cast<double>(s.duration_ns) * 1e-9});
    all["steps"] = std::move(steps);
  }
  std::printf("%s\n", all.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

}  // namespace kvpage::cli
