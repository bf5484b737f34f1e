#include "tools/kvpage/answerer.hpp"
#include "tools/kvpage/conversation.hpp"
#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/loaded_model.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kvpage::cli {
namespace {

/// Reads lines until end of file; each is a turn of the user. On a terminal, a message that cannot be answered is left out and the chat
/// goes on. Elsewhere nobody would see that, and later answers would miss a turn: the chat ends. Errors: Failure that names the line.
void chat(const RunOptions& options, const LoadedModel& m, Answerer& answerer, Conversation& conversation) {
  const bool terminal = isatty(STDIN_FILENO) != 0;
  if (terminal) std::fprintf(stderr, "Chat: type a line and Enter; Ctrl-C ends an answer, Ctrl-D the chat.\n");
  if (options.system) {
    conversation.add("system", *options.system);
    warn_of_bytes(m.tokenizer, *options.system);
  }
  std::string line;
  for (std::int64_t number = 1;; ++number) {
    if (terminal) std::fprintf(stderr, "> ");
    if (!std::getline(std::cin, line)) break;
    if (line.empty()) continue;
    conversation.add("user", line);
    warn_of_bytes(m.tokenizer, line);
    try {
      conversation.add("assistant", answerer.answer(conversation.prompt_ids()));
    } catch (const Failure& failure) {
      if (!terminal) throw Failure(failure.exit_code(), "line " + std::to_string(number) + " of standard input: " + failure.what());
      std::fprintf(stderr, "kvpage: %s; the message is left out of the chat\n", failure.what());
      conversation.drop_last();
    }
  }
}

/// A text to be continued.
std::vector<TokenId> raw_ids(const std::string& text, const engine::Tokenizer& tokenizer) {
  auto ids = encode_or_warn(tokenizer, text, {.add_special = true, .parse_special = true});
  if (tokenizer.begins_with_two_bos(ids)) {
    std::fprintf(stderr, "warning: the text begins with BOS and the model adds another one; leave it out of the text\n");
  }
  return ids;
}

/// A question, with what the system says.
std::vector<TokenId> chat_ids(const RunOptions& options, const engine::ChatTemplate& chat_template, const engine::Tokenizer& tokenizer) {
  Conversation conversation(chat_template, tokenizer);
  if (options.system) {
    conversation.add("system", *options.system);
    warn_of_bytes(tokenizer, *options.system);
  }
  conversation.add("user", *options.prompt);
  warn_of_bytes(tokenizer, *options.prompt);
  return conversation.prompt_ids();
}

/// Errors: Failure when the model cannot answer `ids` in the context that was asked for.
void require_room(std::span<const TokenId> ids, const RunOptions& options, const engine::ModelSpec& spec) {
  const std::int64_t context_tokens = context_of(options.model.context_tokens, spec);
  if (ids.empty()) throw Failure(kExitUsage, "--prompt has no tokens, and this model has no BOS to start from");
  if (std::ssize(ids) < context_tokens) return;
  throw Failure(kExitDoesNotFit, std::string(describe(RefusalKind::kContextLimit)) + " (" + std::to_string(ids.size()) + ", limit " +
                                     std::to_string(context_tokens) + " tokens); " + context_advice(context_tokens, spec));
}

/// Errors: Failure when the vocabulary lacks a token of --logit-bias.
void require_biases(const RunOptions& options, const engine::ModelSpec& spec) {
  std::vector<TokenId> ids;
  for (const LogitBias& bias : options.sampling.logit_bias) ids.push_back(bias.id);
  require_in_vocabulary(ids, spec.vocab_size, "--logit-bias");
}

}  // namespace

int run(const RunOptions& options) {
  // Before the weights: what is impossible should not cost a load.
  OpenModel open = open_model(options.model.model);
  require_biases(options, open.spec);
  std::optional<engine::ChatTemplate> chat_template;
  if (!options.raw) {
    chat_template = compile_chat_template(open.text.file);
    if (!chat_template) {
      throw Failure(kExitUsage, options.model.model + " has no chat template (a base model?); use --raw to continue a text");
    }
  }
  std::vector<TokenId> ids;
  if (options.prompt) {
    ids = options.raw ? raw_ids(*options.prompt, open.text.tokenizer) : chat_ids(options, *chat_template, open.text.tokenizer);
    require_room(ids, options, open.spec);
  }
  const std::int64_t rows = std::max({options.num_answers, options.beam_width, std::int64_t{1}});
  LoadedModel m = load_model(std::move(open), options.model, options.model.context_tokens, engine::kDefaultStepTokens, rows);
  Answerer answerer(options, m);
  if (options.prompt) {
    answerer.answer(ids);
    return kExitOk;
  }
  Conversation conversation(*chat_template, m.tokenizer);
  chat(options, m, answerer, conversation);
  return kExitOk;
}

}  // namespace kvpage::cli
