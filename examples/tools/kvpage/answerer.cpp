#include "tools/kvpage/answerer.hpp"

#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/interrupt.hpp"
#include "tools/kvpage/rates.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>

namespace kvpage::cli {
namespace {

using Json = nlohmann::ordered_json;

void write_out(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// One step per row of the prompt and, at one time, of all answers.
EngineOptions limits_of(const engine::GenerationRequest& request) {
  EngineOptions limits;
  limits.max_seqs = request.num_candidates();
  limits.budget_tokens = std::max(engine::kDefaultStepTokens, limits.max_seqs + 1);
  return limits;
}

/// Which limit the end of the context was.
std::string full_context_text(const engine::LanguageModel& model) {
  const std::string tokens = std::to_string(model.context_tokens()) + " tokens";
  if (model.context_tokens() >= model.spec().context_limit_tokens) return "context full: " + tokens + ", the model's limit";
  return "context full: " + tokens + " (see --ctx)";
}

std::string finish_text(const engine::Answer& answer, std::int64_t max_tokens, const engine::LanguageModel& model) {
  switch (answer.finish) {
    case FinishReason::kStop: return "end of answer";
    case FinishReason::kLength: return std::ssize(answer.ids) >= max_tokens ? "--max-tokens reached" : full_context_text(model);
    case FinishReason::kCapacity: return "KV pool full: all answers share the pages of one context (see --ctx and --answers)";
    case FinishReason::kCancelled: return "interrupted";
    case FinishReason::kNone:
    case FinishReason::kDeadline:
    case FinishReason::kError: break;
  }
  return std::string(engine::name_of(answer.finish));
}

/// Errors: Failure when an answer ended by a fault.
void require_no_fault(const engine::GenerationResult& result) {
  const auto broken = [](const engine::Answer& answer) { return answer.finish == FinishReason::kError; };
  if (std::none_of(result.answers.begin(), result.answers.end(), broken)) return;
  throw Failure(kExitRun, "a token could not be drawn: its logits are NaN or infinite, or none is allowed");
}

double seconds(std::int64_t from_ns, std::int64_t to_ns) { return static_cast<double>(to_ns - from_ns) * 1e-9; }

/// " (12.3 tok/s)" with this text in front; nothing when nothing was done, or no time passed.
std::string rate_text(const char* before, std::int64_t tokens, double time_s, const char* after) {
  if (tokens <= 0 || !rate(tokens, time_s)) return {};
  char text[48];
  std::snprintf(text, sizeof text, "%s%.1f tok/s%s", before, *rate(tokens, time_s), after);
  return text;
}

std::string seconds_text(double time_s) {
  char text[48];
  std::snprintf(text, sizeof text, "%.3f s", time_s);
  return text;
}

}  // namespace

engine::GenerationRequest request_of(const RunOptions& o) {
  engine::GenerationRequest request;
  request.max_tokens = o.max_tokens;
  request.min_tokens = o.min_tokens;
  request.n = o.num_answers;
  request.beam_width = o.beam_width;
  request.num_logprobs = o.num_logprobs;
  request.stop_strings = o.stop;
  request.seed = o.sampling.seed;
  request.sampling.temperature = o.sampling.temperature;
  request.sampling.top_k = o.sampling.top_k;
  request.sampling.top_p = o.sampling.top_p;
  request.sampling.min_p = o.sampling.min_p;
  request.sampling.repetition_penalty = o.sampling.repetition_penalty;
  request.sampling.presence_penalty = o.sampling.presence_penalty;
  request.sampling.frequency_penalty = o.sampling.frequency_penalty;
  request.logit_bias = o.sampling.logit_bias;
  return request;
}

Answerer::Answerer(const RunOptions& options, LoadedModel& model)
    : options_(options),
      m_(model),
      template_(request_of(options)),
      engine_(*model.model, engine_config(limits_of(template_), options.model, 1), policies_of({}), env_, model.end_tokens,
              &model.tokenizer) {
  if (template_.sampling.greedy() || template_.seed) return;
  template_.seed = env_.draw_seed();
  std::fprintf(stderr, "[seed %llu]\n", static_cast<unsigned long long>(*template_.seed));
}

std::string Answerer::answer(std::span<const TokenId> ids) {
  if (ids.empty()) throw Failure(kExitUsage, "the prompt has no tokens, and this model has no BOS to start from");
  engine::GenerationRequest request = template_;
  request.prompt_ids.assign(ids.begin(), ids.end());
  const engine::GenerationResult result = generate(request);
  for (const engine::Answer& one : result.answers) print_logprobs(one);
  print_timings(result);
  return result.answers.front().text;
}

engine::GenerationResult Answerer::generate(const engine::GenerationRequest& request) {
  const bool streams = request.streams() && request.n == 1;
  const auto prompt_tokens = std::ssize(request.prompt_ids);
  engine_.on_plan([&](const BatchPlan& plan) { show_prefill(plan, prompt_tokens); });
  const InterruptScope interrupt;
  const Ticket ticket = submit(request);
  bool printed = false;
  while (true) {
    engine::StepOutput output = step(interrupt, ticket.id);
    for (const engine::TokenOutput& token : output.tokens) {
      if (streams) write_out(token.text), printed = true;
    }
    if (output.finished.empty()) continue;
    engine::GenerationResult result = std::move(output.finished.front());
    if (streams && printed) write_out(result.answers.front().tail_text + "\n");
    require_no_fault(result);
    if (streams && !printed) write_out(result.answers.front().tail_text + "\n");
    if (!streams) print_answers(result);
    return result;
  }
}

Ticket Answerer::submit(const engine::GenerationRequest& request) {
  const auto ticket = engine_.submit(request);
  if (ticket) return *ticket;
  const Refusal& r = ticket.error();
  const std::string message =
      std::string(describe(r)) + " (" + std::to_string(r.value) + ", limit " + std::to_string(r.limit) + " " + r.unit;
  if (r.kind == RefusalKind::kContextLimit) {
    throw Failure(kExitDoesNotFit, message + "); " + context_advice(m_.model->context_tokens(), m_.model->spec()));
  }
  if (r.kind == RefusalKind::kNeverFits) {
    throw Failure(kExitDoesNotFit, message + "): all answers share the pages of one context; use a larger --ctx, fewer --answers "
                                             "or a narrower --beam");
  }
  throw Failure(kExitUsage, message + ")");
}

engine::StepOutput Answerer::step(const InterruptScope& interrupt, RequestId id) {
  if (interrupt.requested()) engine_.cancel(id);
  engine::StepOutput output = engine_.step();
  if (!output.gave_up) return output;
  engine_.cancel(id);
  engine_.step();  // takes the end of the request, so that the next one starts with nothing in flight
  throw Failure(kExitRun, std::string("the model failed again and again: ") + output.status.message());
}

/// Rows of the prompt that are there when the step is over. Nothing is shown for one token alone: that is a step of the answer.
void Answerer::show_prefill(const BatchPlan& plan, std::int64_t prompt_tokens) {
  if (plan.kv_lens.empty() || plan.kv_lens.front() > prompt_tokens || prompt_tokens == 1) return;
  m_.progress->show("prefill", plan.kv_lens.front(), prompt_tokens, "tokens");
}

void Answerer::print_answers(const engine::GenerationResult& result) const {
  for (std::size_t i = 0; i < result.answers.size(); ++i) {
    if (result.answers.size() > 1) write_out("[answer " + std::to_string(i + 1) + "]\n");
    write_out(result.answers[i].text + "\n");
  }
}

void Answerer::print_logprobs(const engine::Answer& answer) const {
  for (const engine::TokenLogprobs& token : answer.logprobs) {
    const auto entry = [&](const engine::TokenLogprob& t) {
      return Json{{"id", t.id}, {"text", m_.tokenizer.token_bytes(t.id, true)}, {"logprob", finite_logprob(t.logprob)}};
    };
    Json line = entry(token.chosen);
    for (const engine::TokenLogprob& other : token.top) line["top"].push_back(entry(other));
    std::fprintf(stderr, "%s\n", line.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  }
}

/// What an answer cost, as far as it was measured: an answer that was interrupted in its prompt has no first token, one of a single token
/// no rate. The time to the first token is that of the prompt; the rate is that of the steps after it.
void Answerer::print_timings(const engine::GenerationResult& result) const {
  const engine::RequestMetrics& m = result.metrics;
  std::string text = std::to_string(m.prompt_tokens) + " prompt tokens";
  if (m.first_token_ns > 0) {
    const double prefill_s = seconds(m.arrival_ns, m.first_token_ns);
    if (m.cached_tokens > 0) text += " (" + std::to_string(m.cached_tokens) + " cached)";
    text += ", first token after " + seconds_text(prefill_s) + rate_text(" (", m.prompt_tokens - m.cached_tokens, prefill_s, ")");
    std::int64_t tokens = 0, steps = 0;
    for (const engine::Answer& one : result.answers) {
      tokens += std::ssize(one.ids);
      steps += std::max<std::int64_t>(0, one.num_drawn - 1);
    }
    text += "; " + std::to_string(tokens) + " tokens" + rate_text(", ", steps, seconds(m.first_token_ns, m.finished_ns), "");
  } else {
    const double time_s = seconds(m.arrival_ns, m.finished_ns);
    text += ", " + std::to_string(m.positions_computed) + " computed in " + seconds_text(time_s) + ", no token";
  }
  std::fprintf(stderr, "[%s; %s]\n", text.c_str(), finish_text(result.answers.front(), options_.max_tokens, *m_.model).c_str());
}

}  // namespace kvpage::cli
