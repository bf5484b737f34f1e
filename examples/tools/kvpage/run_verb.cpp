/// \file Options of `kvpage run`.
#include "engine/sampling/check_request.hpp"
#include "engine/text/number_text.hpp"
#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/model_options.hpp"
#include "tools/kvpage/verb.hpp"

#include <limits>
#include <memory>
#include <string_view>

namespace kvpage::cli {
namespace {

using Most = engine::SamplingLimits;

/// Takes "ID=BIAS", or says what would have been right. Whether the vocabulary has the id, the model will tell.
std::string take_bias(const std::string& text, std::vector<LogitBias>& biases) {
  constexpr auto kBias = static_cast<double>(Most::kBias);
  if (std::ssize(biases) == Most::kLogitBiases) return "given at most " + std::to_string(Most::kLogitBiases) + " times";
  const std::string_view all = text;
  const std::size_t equals = all.find('=');
  if (equals != std::string_view::npos) {
    const auto id = engine::parse_integer<TokenId>(all.substr(0, equals), 0, std::numeric_limits<TokenId>::max() - 1);
    const auto bias = engine::parse_real(all.substr(equals + 1), -kBias, kBias);
    if (id && bias) {
      biases.push_back({*id, static_cast<float>(*bias)});
      return {};
    }
  }
  return "ID=BIAS, with a token id and " + engine::real_range(-kBias, kBias);
}

/// Takes a stop string, or says what would have been right.
std::string take_stop(const std::string& text, std::vector<std::string>& stops) {
  if (std::ssize(stops) == Most::kStopStrings) return "given at most " + std::to_string(Most::kStopStrings) + " times";
  if (text.empty() || std::ssize(text) > Most::kStopStringBytes) {
    return "a text of 1 to " + std::to_string(Most::kStopStringBytes) + " bytes";
  }
  stops.push_back(text);
  return {};
}

void add_sampling_options(CLI::App& app, SamplingOptions& o) {
  add_real(app, "--temperature,--temp", o.temperature, 0, Most::kTemperature, "0 = greedy");
  add_integer(app, "--top-k", o.top_k, {-1, kMostTokens}, "keep the k likeliest tokens; 0 or -1 = off");
  add_real(app, "--top-p", o.top_p, 0, 1, "keep the smallest set of this probability");
  add_real(app, "--min-p", o.min_p, 0, 1, "drop tokens below this share of the likeliest");
  add_real(app, "--repetition-penalty", o.repetition_penalty, Most::kLeastRepetitionPenalty, Most::kPenalty, "1 = off");
  add_real(app, "--presence-penalty", o.presence_penalty, -Most::kPenalty, Most::kPenalty,
           "taken off the logit of each token that the answer has; 0 = off");
  add_real(app, "--frequency-penalty", o.frequency_penalty, -Most::kPenalty, Most::kPenalty,
           "the same, as often as the answer has it; 0 = off");
  add_texts(app, "--logit-bias", "ID=BIAS, added to the logit of a token, -100 to 100; may be given again",
            [&o](const std::string& text) { return take_bias(text, o.logit_bias); });
  add_seed(app, "-s,--seed", o.seed, "seed of the random draws; without it one is drawn and shown");
}

void add_answer_options(CLI::App& app, RunOptions& o) {
  add_integer(app, "-n,--max-tokens", o.max_tokens, {1, kMostTokens}, "longest answer in tokens");
  add_integer(app, "--min-tokens", o.min_tokens, {0, kMostTokens}, "the answer does not end before");
  add_integer(app, "--answers,--n", o.num_answers, {1, Most::kAnswers}, "answers to one prompt; chats go on from the first");
  add_integer(app, "--beam", o.beam_width, {1, Most::kAnswers}, "beam search of this width; the best of its answers are shown when it ends")
      ->default_str("");
  add_texts(app, "--stop", "text before which the answer ends; may be given again",
            [&o](const std::string& text) { return take_stop(text, o.stop); });
  add_integer(app, "--logprobs", o.num_logprobs, {0, Most::kTopLogprobs},
              "each token's log-probability and the k likeliest there, as JSON lines on standard error")
      ->default_str("");
}

[[noreturn]] void refuse(const std::string& message) { throw Failure(kExitUsage, message); }

/// Errors: Failure when options do not go together.
void require_compatible(const RunOptions& o) {
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  if (o.raw && !o.prompt) refuse("--raw continues a text: give it with --prompt");
  if (o.raw && o.system) refuse("--system is a message of a chat: with --raw, put it into the text of --prompt");
  if (o.min_tokens > o.max_tokens) refuse("--min-tokens " + text(o.min_tokens) + " is more than --max-tokens " + text(o.max_tokens));
  if (o.beam_width == 0) return;
  if (o.num_answers > o.beam_width) refuse("--answers " + text(o.num_answers) + " is more than --beam " + text(o.beam_width));
  if (o.sampling.temperature > 0) refuse("a beam draws nothing: with --beam the --temperature must be 0");
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
  add_switch(*app, "--raw", o->raw, "no chat template: continue the text itself");
  add_answer_options(*app, *o);
  add_sampling_options(*app, o->sampling);
  app->footer("Examples:\n  kvpage run --model m.gguf --prompt \"Why is the sky blue?\"\n"
              "  kvpage run --model m.gguf --raw --prompt \"Once upon a time\" --max-tokens 50\n"
              "  kvpage run --model m.gguf --prompt \"A name for a cat\" --answers 3 --temperature 1 --seed 7\n"
              "  kvpage run --model m.gguf                      (chat; end with Ctrl-D)\n"
              "Lines from a file or a pipe are a chat too: the first one that cannot be answered ends it, with the exit code of its\n"
              "error.");
  return {app, [o] {
            require_compatible(*o);
            return run(*o);
          }};
}

}  // namespace kvpage::cli
