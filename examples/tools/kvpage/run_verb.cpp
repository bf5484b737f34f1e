/// \file Options of `kvpage run`.
#include "engine/sampling/check_request.hpp"
#include "tools/kvpage/model_options.hpp"
#include "tools/kvpage/verb.hpp"

#include <limits>
#include <memory>

namespace kvpage::cli {
namespace {

void add_sampling_options(CLI::App& app, SamplingOptions& o) {
  app.add_option("--temperature,--temp", o.temperature, "0 = greedy")->check(CLI::Range(0.0f, 100.0f))->capture_default_str();
  app.add_option("--top-k", o.top_k, "keep the k likeliest tokens; 0 = off")->capture_default_str();
  app.add_option("--top-p", o.top_p, "keep the smallest set of this probability")->check(CLI::Range(0.0f, 1.0f))->capture_default_str();
  app.add_option("--min-p", o.min_p, "drop tokens below this share of the likeliest")
      ->check(CLI::Range(0.0f, 1.0f))
      ->capture_default_str();
  app.add_option("--repetition-penalty", o.repetition_penalty, "1 = off")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--presence-penalty", o.presence_penalty, "taken off the logit of each token that the answer has; 0 = off")
      ->check(CLI::Range(-100.0f, 100.0f))
      ->capture_default_str();
  app.add_option("--frequency-penalty", o.frequency_penalty, "the same, as often as the answer has it; 0 = off")
      ->check(CLI::Range(-100.0f, 100.0f))
      ->capture_default_str();
  app.add_option("--logit-bias", o.logit_bias, "ID=BIAS, added to the logit of a token, -100 to 100; may be given again");
  app.add_option("-s,--seed", o.seed, "seed of the random draws; without it one is drawn and shown");
}

void add_answer_options(CLI::App& app, RunOptions& o) {
  using Most = engine::SamplingLimits;
  constexpr std::int64_t kMostTokens = std::int64_t{1} << 31;
  app.add_option("-n,--max-tokens", o.max_tokens, "longest answer in tokens")
      ->check(CLI::Range(std::int64_t{1}, kMostTokens))
      ->capture_default_str();
  app.add_option("--min-tokens", o.min_tokens, "the answer does not end before")
      ->check(CLI::Range(std::int64_t{0}, kMostTokens))
      ->capture_default_str();
  app.add_option("--answers,--n", o.num_answers, "answers to one prompt; chats go on from the first")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{Most::kAnswers}))
      ->capture_default_str();
  app.add_option("--beam", o.beam_width, "beam search of this width; the best of its answers are shown when it ends")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{Most::kAnswers}));
  app.add_option("--stop", o.stop, "text before which the answer ends; may be given again");
  app.add_option("--logprobs", o.num_logprobs, "each token's log-probability and the k likeliest there, as JSON lines on standard error")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{Most::kTopLogprobs}));
}

}  // namespace

Verb add_run(CLI::App& root) {
  auto o = std::make_shared<RunOptions>();
  auto* app = root.add_subcommand("run", "Stream the answer to a prompt, or chat without --prompt");
  add_model_options(*app, o->model);
  add_context(*app, o->model);
  add_prefix_cache(*app, o->model);
  app->add_option("-p,--prompt", o->prompt, "text of the user (without it: interactive chat)");
  app->add_option("--system", o->system, "system message of the chat");
  app->add_flag("--raw", o->raw, "no chat template: continue the text itself");
  add_answer_options(*app, *o);
  add_sampling_options(*app, o->sampling);
  app->footer("Examples:\n  kvpage run --model m.gguf --prompt \"Why is the sky blue?\"\n"
              "  kvpage run --model m.gguf --raw --prompt \"Once upon a time\" --max-tokens 50\n"
              "  kvpage run --model m.gguf --prompt \"A name for a cat\" --answers 3 --temperature 1 --seed 7\n"
              "  kvpage run --model m.gguf                      (chat; end with Ctrl-D)");
  return {app, [o] { return run(*o); }};
}

}  // namespace kvpage::cli
