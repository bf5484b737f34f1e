/// \file A model on memory that only operations can touch: a golden row, and reads past the backend, which die.
#include "engine/scoring.hpp"
#include "engine/tiny_models.hpp"
#include "engine_law/guarded_model.hpp"
#include "golden/greedy_rows.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace kvpage_test {
namespace {

using kvpage::engine::LanguageModel;
using kvpage::engine::ModelConfig;

/// How a child that does `fault` ends.
template <class Fault>
int signal_of(const Fault& fault) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);
    fault();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

}  // namespace

TEST_CASE("engine.law.guarded_memory_gives_a_golden_row", "[engine_law]") {
  const GoldenModel golden = open_golden_model("smollm2");
  const GreedyRow& row = row_named(golden.rows, "prose");
  ModelConfig config;
  config.pool_tokens = 1024;
  for (const std::string kernels : {"cpu", "reference"}) {
    if (kernels == "reference") config.kv_type = "f32";
    config.kernels = kernels;
    const std::size_t num_ids = kernels == "reference" ? 4 : 16;  // loops in double are slow
    const auto scored = [&](LanguageModel& model) {
      const auto score = kvpage::engine::score(model, row.prompt_ids, std::span(row.greedy_ids).first(num_ids), model.step_tokens());
      if (!score) FAIL(score.error().message);
      return *score;
    };
    const auto guarded = scored(*load_guarded(*golden.file, config));
    const auto ordinary = scored(*golden.load(kernels, "", 1));
    REQUIRE(guarded.continuation.size() == num_ids);
    for (std::size_t i = 0; i < num_ids; ++i) CHECK(guarded.continuation[i].logprob == ordinary.continuation[i].logprob);
  }
}

TEST_CASE("engine.law.a_read_past_the_backend_dies", "[engine_law]") {
  const TinyFile file(plain_model());
  const auto model = load_guarded(file.gguf(), tiny_config("cpu", "f16"));
  kvpage::engine::SequenceRunner runner(*model);
  REQUIRE(runner.start(some_ids(40, 5), kvpage::engine::LogitRows::kLast));
  CHECK(signal_of([] {}) == 0);
  using enum GuardedMemory;
  for (const GuardedMemory kind : {kNormWeight, kActivation, kPage, kTable, kLogits}) {
    INFO(static_cast<int>(kind));
    CHECK(signal_of([kind] { touch_guarded(kind); }) == SIGSEGV);
  }
}

}  // namespace kvpage_test
