/// \file A small model gives one token from a cache that holds the prompt: the calls of that decode step are recorded.
#include "engine/engine.hpp"
#include "engine/loader/gguf.hpp"
#include "engine/model/language_model.hpp"
#include "engine/tokenizer_from_gguf.hpp"
#include "hops/trace.hpp"
#include "loader/temp_dir.hpp"
#include "support/tiny_gguf.hpp"

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace kvpage::engine;
using kvpage::TokenId;

template <class T>
T loaded(kvpage::Expected<T, LoadError> result) {
  if (!result) throw std::runtime_error(result.error().to_string());
  return std::move(*result);
}

/// Runs the prompt, then records one step of the engine; returns the number of calls.
std::int64_t trace_decode_step(LanguageModel& model, const Tokenizer& tokenizer, const std::string& log) {
  SystemEnv env;
  Engine<kvpage::NamedPolicies, SystemEnv> engine(model, {}, {}, env, {}, &tokenizer);
  GenerationRequest request;
  request.prompt_ids = tokenizer.encode("then an hour");
  request.max_tokens = 3;
  request.sampling.temperature = 1;  // a greedy row would leave the sampler out
  if (!engine.submit(request)) throw std::runtime_error("the request was refused");
  if (engine.step().tokens.size() != 1) throw std::runtime_error("the prompt step failed");

  kvpage_test::trace::start();
  const StepOutput& output = engine.step();
  const std::int64_t num_calls = kvpage_test::trace::stop(log);
  if (!output.status.ok()) throw std::runtime_error(output.status.message());
  if (output.tokens.size() != 1 || output.num_tokens != 1) throw std::runtime_error("one token was wanted");
  return num_calls;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    const kvpage_test::TempDir dir;
    kvpage_test::write_tiny_gguf({}, dir / "tiny.gguf");
    const Gguf file = loaded(Gguf::open(dir / "tiny.gguf"));
    const Tokenizer tokenizer = loaded(read_tokenizer(file));
    ModelConfig config;
    config.num_threads = 1;
    const auto model = loaded(load_language_model(file, loaded(read_model_spec(file)), config));
    return trace_decode_step(*model, tokenizer, argv[1]) > 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "decode_step: %s\n", error.what());
    return 1;
  }
}
