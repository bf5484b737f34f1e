#include "engine/generation.hpp"
#include "engine/tokenizer/stream_detokenizer.hpp"
#include "tools/kvpage/conversation.hpp"
#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/interrupt.hpp"
#include "tools/kvpage/loaded_model.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <random>
#include <string>

namespace kvpage::cli {
namespace {

void write_out(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

const char* finish_text(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "end of answer";
    case FinishReason::kLength: return "--max-tokens reached";
    case FinishReason::kCapacity: return "context full (see --ctx)";
    case FinishReason::kCancelled: return "interrupted";
    default: return "ended";
  }
}

/// Prints what an answer cost. The time to first token is that of the prompt; the rate is that of the steps after it.
void print_timings(std::size_t prompt_tokens, const engine::Generation& g) {
  const auto computed = static_cast<double>(prompt_tokens) - static_cast<double>(g.cached_tokens);
  const double prompt_rate = g.prefill_s > 0 ? computed / g.prefill_s : 0;
  const double decode_rate = g.decode_steps > 0 && g.decode_s > 0 ? static_cast<double>(g.decode_steps) / g.decode_s : 0;
  const std::string cached = g.cached_tokens > 0 ? " (" + std::to_string(g.cached_tokens) + " cached)" : "";
  std::fprintf(stderr, "[%zu prompt tokens%s, first token after %.3f s (%.1f tok/s); %zu tokens, %.1f tok/s; %s]\n", prompt_tokens,
               cached.c_str(), g.prefill_s, prompt_rate, g.ids.size(), decode_rate, finish_text(g.finish));
}

SamplingParams sampling_of(const RunOptions& o) {
  SamplingParams params;
  params.temperature = o.temperature;
  params.top_k = o.top_k;
  params.top_p = o.top_p;
  params.min_p = o.min_p;
  params.repetition_penalty = o.repetition_penalty;
  if (o.seed) {
    params.seed = *o.seed;
  } else if (!params.greedy()) {
    params.seed = std::random_device{}();
    std::fprintf(stderr, "[seed %llu]\n", static_cast<unsigned long long>(params.seed));
  }
  return params;
}

/// One model in conversation, and how its answers are shown. What an earlier turn left in the cache is not computed again.
class Answerer {
 public:
  Answerer(const RunOptions& options, LoadedModel& m)
      : options_(options), m_(m), runner_(*m.model, {.share_prefixes = options.model.prefix_cache}), sampling_(sampling_of(options)) {
    if (const Status status = validate(sampling_, m.model->spec().vocab_size); !status.ok()) {
      throw Failure(kExitUsage, status.message());
    }
  }

  /// Streams the answer to `ids`, the whole text so far.
  std::string answer(std::span<const TokenId> ids) {
    if (ids.empty()) throw Failure(kExitUsage, "the prompt has no tokens, and this model has no BOS to start from");
    const engine::Generation g = generate(ids);
    print_timings(ids.size(), g);
    return m_.tokenizer.decode(g.ids);
  }

 private:
  engine::Generation generate(std::span<const TokenId> prompt) {
    engine::StreamDetokenizer text(m_.tokenizer, {.strip_space_prefix = false});
    engine::GenerationOptions generation;
    generation.sampling = sampling_;
    generation.max_tokens = options_.max_tokens;
    generation.end_tokens = m_.end_tokens;
    const InterruptScope interrupt;
    runner_.on_step([&, total = static_cast<std::int64_t>(prompt.size())](std::int64_t done) {
      if (total > 1 && runner_.num_tokens() <= std::ssize(prompt)) {
        m_.progress->show("prefill", done, total, "tokens");
      }
      return !interrupt.requested();
    });
    auto g = engine::generate(
        runner_, {}, prompt, generation, [&](TokenId id) { write_out(text.push(id)); }, [&] { return interrupt.requested(); });
    runner_.on_step({});
    if (!g) throw_run_failure(g.error());
    write_out(text.finish());
    write_out("\n");
    return std::move(*g);
  }

  const RunOptions& options_;
  LoadedModel& m_;
  engine::SequenceRunner runner_;
  SamplingParams sampling_;
};

/// Reads lines until end of file; each is a turn of the user.
void chat(const RunOptions& options, const LoadedModel& m, Answerer& answerer, Conversation& conversation) {
  const bool terminal = isatty(STDIN_FILENO) != 0;
  if (terminal) std::fprintf(stderr, "Chat: type a line and Enter; Ctrl-C ends an answer, Ctrl-D the chat.\n");
  if (options.system) conversation.add("system", *options.system);
  std::string line;
  while (true) {
    if (terminal) std::fprintf(stderr, "> ");
    if (!std::getline(std::cin, line)) break;
    if (line.empty()) continue;
    conversation.add("user", line);
    warn_of_dropped_bytes(m.tokenizer, line);
    try {
      conversation.add("assistant", answerer.answer(conversation.prompt_ids()));
    } catch (const Failure& failure) {
      std::fprintf(stderr, "kvpage: %s; the message is left out of the chat\n", failure.what());
      conversation.drop_last();
    }
  }
}

void run_raw(const RunOptions& options, const LoadedModel& m, Answerer& answerer) {
  if (!options.prompt) throw Failure(kExitUsage, "--raw continues a text: give it with --prompt");
  const auto ids = encode_or_warn(m.tokenizer, *options.prompt, {.add_special = true, .parse_special = true});
  if (m.tokenizer.begins_with_two_bos(ids)) {
    std::fprintf(stderr, "warning: the text begins with BOS and the model adds another one; leave it out of the text\n");
  }
  answerer.answer(ids);
}

}  // namespace

int run(const RunOptions& options) {
  std::optional<engine::ChatTemplate> chat_template;
  if (!options.raw) {
    // Before the weights: an impossible chat should not cost a load.
    const auto file = loaded(engine::Gguf::open(options.model.model));
    chat_template = compile_chat_template(file);
    if (!chat_template) {
      throw Failure(kExitUsage, options.model.model + " has no chat template (a base model?); use --raw to continue a text");
    }
  }
  LoadedModel m = load_model(options.model, options.model.context_tokens, engine::kDefaultStepTokens);
  Answerer answerer(options, m);
  if (options.raw) {
    run_raw(options, m, answerer);
    return kExitOk;
  }
  Conversation conversation(*chat_template, m.tokenizer);
  if (!options.prompt) {
    chat(options, m, answerer, conversation);
    return kExitOk;
  }
  if (options.system) conversation.add("system", *options.system);
  conversation.add("user", *options.prompt);
  warn_of_dropped_bytes(m.tokenizer, *options.prompt);
  answerer.answer(conversation.prompt_ids());
  return kExitOk;
}

}  // namespace kvpage::cli
