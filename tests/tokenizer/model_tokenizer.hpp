/// \file The tokenizers of the models that tests use, by short name.
#pragma once

#include "engine/tokenizer_from_gguf.hpp"
#include "support/catch.hpp"
#include "support/environment.hpp"

#include <string>
#include <string_view>

namespace kvpage_test {

/// The tokenizer of a model; a missing or broken file is a failure.
inline kvpage::engine::Tokenizer model_tokenizer(std::string_view model) {
  const auto path = model_path(model);
  INFO("model " << path << "; tools/fetch_model.sh " << model << " fetches it");
  auto file = kvpage::engine::Gguf::open(path);
  if (!file) FAIL(file.error().to_string());
  auto tokenizer = kvpage::engine::read_tokenizer(*file);
  if (!tokenizer) FAIL(tokenizer.error().to_string());
  return std::move(*tokenizer);
}

/// The models whose tokenizers are checked: two BPE vocabularies with different pre-tokenizers, one SPM.
inline constexpr std::string_view kTokenizerModels[] = {"smollm2", "qwen0.5b", "gemma3"};

}  // namespace kvpage_test
