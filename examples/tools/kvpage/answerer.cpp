#include "tools/kvpage/answerer.hpp"

#include "engine/sampling/check_request.hpp"
#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/interrupt.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace kvpage::cli {
namespace {

using Json = nlohmann::ordered_json;

void write_out(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// "id=bias".
LogitBias bias_of(const std::string& text) {
  char* rest = nullptr;
  const std::size_t equals = text.find('=');
  const unsigned long long id = std::strtoull(text.c_str(), &rest, 10);
  const bool has_id = equals != std::string::npos && equals > 0 && text.find_first_not_of("0123456789") == equals &&
                      rest == text.c_str() + equals && id < 0xFFFF'FFFFu;
  const float bias = has_id ? std::strtof(text.c_str() + equals + 1, &rest) : 0;
  if (!has_id || equals + 1 == text.size() || *rest != '\0' || !(std::abs(bias) <= static_cast<float>(engine::SamplingLimits::kBias))) {
    throw Failure(kExitUsage, "--logit-bias " + text + ": wanted is ID=BIAS, with a token id and a number in [-100, 100]");
  }
  return {static_cast<TokenId>(id), bias};
}

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
  for (const std::string& text : o.sampling.logit_bias) request.logit_bias.push_back(bias_of(text));
  return request;
}

/// One step per row of the prompt and, at one time, of all answers.
EngineOptions limits_of(const engine::GenerationRequest& request) {
  EngineOptions limits;
  limits.max_seqs = request.num_candidates();
  limits.budget_tokens = std::max(engine::kDefaultStepTokens, limits.max_seqs + 1);
  return limits;
}

std::string finish_text(const engine::Answer& answer, std::int64_t max_tokens) {
  switch (answer.finish) {
    case FinishReason::kStop: return "end of answer";
    case FinishReason::kLength:
      return std::ssize(answer.ids) >= max_tokens ? "--max-tokens reached" : "context full (see --ctx)";
    case FinishReason::kCapacity: return "context full (see --ctx)";
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

}  // namespace

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
  const std::string numbers = " (" + std::to_string(r.value) + ", limit " + std::to_string(r.limit) + " " + r.unit + ")";
  if (r.kind == RefusalKind::kContextLimit || r.kind == RefusalKind::kNeverFits) {
    throw Failure(kExitDoesNotFit, describe(r) + numbers + "; use a larger --ctx");
  }
  throw Failure(kExitUsage, describe(r) + numbers);
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
      return Json{{"id", t.id}, {"text", m_.tokenizer.token_bytes(t.id, true)}, {"logprob", t.logprob}};
    };
    Json line = entry(token.chosen);
    for (const engine::TokenLogprob& other : token.top) line["top"].push_back(entry(other));
    std::fprintf(stderr, "%s\n", line.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  }
}

/// What an answer cost. The time to first token is that of the prompt; the rate is that of the steps after it.
void Answerer::print_timings(const engine::GenerationResult& result) const {
  const engine::RequestMetrics& m = result.metrics;
  const engine::Answer& first = result.answers.front();
  const std::int64_t first_token_ns = m.first_token_ns > 0 ? m.first_token_ns : m.finished_ns;
  const double prefill_s = static_cast<double>(first_token_ns - m.arrival_ns) * 1e-9;
  const double decode_s = static_cast<double>(m.finished_ns - first_token_ns) * 1e-9;
  const auto computed = static_cast<double>(m.prompt_tokens - m.cached_tokens);
  std::int64_t tokens = 0, steps = 0;
  for (const engine::Answer& one : result.answers) {
    tokens += std::ssize(one.ids);
    steps += std::max<std::int64_t>(0, std::ssize(one.ids) - (one.finish == FinishReason::kStop ? 0 : 1));
  }
  const std::string cached = m.cached_tokens > 0 ? " (" + std::to_string(m.cached_tokens) + " cached)" : "";
  std::fprintf(stderr, "[%lld prompt tokens%s, first token after %.3f s (%.1f tok/s); %lld tokens, %.1f tok/s; %s]\n",
               static_cast<long long>(m.prompt_tokens), cached.c_str(), prefill_s, prefill_s > 0 ? computed / prefill_s : 0,
               static_cast<long long>(tokens), decode_s > 0 ? static_cast<double>(steps) / decode_s : 0,
               finish_text(first, options_.max_tokens).c_str());
}

}  // namespace kvpage::cli
