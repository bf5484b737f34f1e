/// \file What ends a request: logits that are no numbers, a full context, the caller; never a wrong token.
#include "engine/scoring.hpp"
#include "engine/tiny_models.hpp"

namespace kvpage_test {
namespace {

using namespace kvpage::engine;

/// Finite weights whose logits overflow.
GgufWriter overflowing_model() {
  GgufWriter writer = tiny_gguf(plain_model());
  auto& norm = tensor_of(writer, "output_norm.weight");
  for (std::size_t i = 0; i < norm.data.size() / sizeof(float); ++i) set_float(norm, i, 3e38f);
  return writer;
}

}  // namespace

TEST_CASE("bug.B33.a_score_of_logits_that_are_no_numbers_is_an_error", "[engine]") {
  const TinyFile file(overflowing_model());
  for (const auto& kernels : backend_names()) {
    INFO(kernels);
    const auto model = file.load(tiny_config(kernels));
    const auto scored = score(*model, some_ids(5), some_ids(2), 512);
    REQUIRE_FALSE(scored);
    CHECK(scored.error().kind == RunError::Kind::kKernel);
    CHECK(scored.error().message.find("NaN or infinite") != std::string::npos);
  }
}

TEST_CASE("engine.run.a_prompt_longer_than_the_context_computes_nothing", "[engine]") {
  const TinyFile file(plain_model());
  auto config = tiny_config("cpu");
  config.pool_tokens = 32;
  const auto model = file.load(config);
  SequenceRunner runner(*model);
  const auto refused = runner.append(some_ids(33), LogitRows::kLast);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == RunError::Kind::kContextFull);
  CHECK(refused.error().message.find("33") != std::string::npos);
  CHECK(refused.error().message.find("32") != std::string::npos);
  CHECK(runner.num_tokens() == 0);
  CHECK(runner.computed_positions() == 0);
  CHECK(runner.append(some_ids(32), LogitRows::kLast));
  CHECK(runner.room_tokens() == 0);
}

TEST_CASE("engine.run.a_visitor_ends_the_request_between_steps", "[engine]") {
  const TinyFile file(plain_model());
  const auto model = file.load(tiny_config("cpu"));
  SequenceRunner runner(*model);
  runner.set_chunk_tokens(8);
  const auto stopped = runner.append(some_ids(30), LogitRows::kAll, [](std::int64_t i, std::span<const float>) { return i < 10; });
  REQUIRE_FALSE(stopped);
  CHECK(stopped.error().kind == RunError::Kind::kStopped);
  CHECK(runner.num_tokens() == 16);
  CHECK_THROWS_AS(runner.set_chunk_tokens(0), kvpage::ConfigError);
  CHECK_THROWS_AS(runner.set_chunk_tokens(model->step_tokens() + 1), kvpage::ConfigError);
}

}  // namespace kvpage_test
