#include "tools/kvpage/answerer.hpp"
#include "tools/kvpage/conversation.hpp"
#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/loaded_model.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>

namespace kvpage::cli {
namespace {

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
  const std::int64_t rows = std::max({options.num_answers, options.beam_width, std::int64_t{1}});
  LoadedModel m = load_model(options.model, options.model.context_tokens, engine::kDefaultStepTokens, rows);
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
