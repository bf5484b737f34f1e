/// \file A model file as the verbs use it: opened, with its tokenizer, and, for the verbs that compute, its weights.
#pragma once

#include "engine/chat/chat_template.hpp"
#include "engine/loader/gguf.hpp"
#include "engine/model/language_model.hpp"
#include "engine/sequence_runner.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "tools/kvpage/options.hpp"
#include "tools/kvpage/progress_bar.hpp"

#include <ctime>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvpage::cli {

/// Ends the verb because a file cannot be used.
[[noreturn]] void throw_load_failure(const engine::LoadError& error);

/// The value, or a Failure with the load error's text.
template <class T>
T loaded(Expected<T, engine::LoadError> result) {
  if (!result) throw_load_failure(result.error());
  return std::move(*result);
}

/// Ends the verb with the run error's exit code.
[[noreturn]] void throw_run_failure(const engine::RunError& error);

/// A file with its tokenizer; no weights are touched.
struct TextModel {
  engine::Gguf file;
  engine::Tokenizer tokenizer;
};
TextModel open_text_model(const std::string& path);

/// The same with all else that a file says before its weights are read. Errors: Failure with kExitLoad.
struct OpenModel {
  TextModel text;
  engine::ModelSpec spec;
};
OpenModel open_model(const std::string& path);

/// A model ready to compute. Members are in the order of their lifetimes.
struct LoadedModel {
  std::unique_ptr<engine::Gguf> file;  ///< null unless weights are read from it
  engine::Tokenizer tokenizer;
  std::vector<TokenId> end_tokens;
  std::unique_ptr<ProgressBar> progress;
  std::unique_ptr<engine::LanguageModel> model;
  double load_s = 0;  ///< from opening the file to being ready
};

/// The engine's settings that `options` ask for.
engine::ModelConfig model_config(const ModelOptions& options, std::int64_t pool_tokens, std::int64_t step_tokens);

/// Refuses a context that is longer than the model's limit. Errors: Failure with kExitDoesNotFit.
void require_context(std::int64_t context_tokens, const engine::ModelSpec& spec);

/// Tokens of the context: as --ctx asks (0 = not at all), within the model's limit. Errors: as require_context.
std::int64_t context_of(std::int64_t context_tokens, const engine::ModelSpec& spec);

/// What to do about a text that is too long for a context of `context_tokens`: which limit it is, and whether --ctx can be larger.
std::string context_advice(std::int64_t context_tokens, const engine::ModelSpec& spec);

/// Refuses ids that the vocabulary lacks. `what`: who has them, for the message. Errors: Failure with kExitUsage.
void require_in_vocabulary(std::span<const TokenId> ids, std::int64_t vocab_size, const std::string& what);

/// Loads the weights of an open model; `pool_tokens`, `step_tokens` and `logit_rows` as in engine::ModelConfig.
/// Errors: Failure with kExitLoad, kExitUsage or kExitDoesNotFit.
LoadedModel load_model(OpenModel open, const ModelOptions& options, std::int64_t pool_tokens, std::int64_t step_tokens,
                       std::int64_t logit_rows = engine::kDefaultLogitRows);
/// The same from the start.
LoadedModel load_model(const ModelOptions& options, std::int64_t pool_tokens, std::int64_t step_tokens,
                       std::int64_t logit_rows = engine::kDefaultLogitRows);

/// Loads `options.model` with a pool in which `num_seqs` sequences of `context_tokens` each go on behind what an earlier request left in
/// the prefix cache: the page that is filled in part is copied, in each cache group, while the old one is still cached.
/// Errors: as load_model.
LoadedModel load_model_for(ModelOptions options, std::int64_t num_seqs, std::int64_t context_tokens, std::int64_t step_tokens);

/// The compiled chat template of the file, if it has one. Errors: Failure when it cannot be compiled.
std::optional<engine::ChatTemplate> compile_chat_template(const engine::Gguf& file);

/// The ids of `text`; warnings if some of its bytes are no UTF-8, or have no token in the vocabulary.
std::vector<TokenId> encode_or_warn(const engine::Tokenizer& tokenizer, std::string_view text, const engine::EncodeOptions& options);
/// Only the warnings, for texts that are encoded as part of a chat.
void warn_of_bytes(const engine::Tokenizer& tokenizer, std::string_view text);

/// The text of a special token for templates; empty if the tokenizer has none.
std::string special_text(const engine::Tokenizer& tokenizer, std::optional<TokenId> id);

/// The clock of templates that print a date.
std::tm local_time_now();

/// Whole content of a file, or of standard input for "-" or nothing. Errors: Failure.
std::string read_text(const std::optional<std::string>& path);

}  // namespace kvpage::cli
