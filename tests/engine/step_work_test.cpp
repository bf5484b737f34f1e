/// \file What a step does: launches do not grow with its rows, it allocates nothing, workers serve the caller, profiles are whole.
#include "engine/backend/step_profile.hpp"
#include "engine/planned_steps.hpp"
#include "golden/greedy_rows.hpp"
#include "support/allocation_count.hpp"

#include <atomic>
#include <numeric>

namespace kvpage_test {
namespace {

using namespace kvpage::engine;

const std::vector<std::vector<PlannedRows>> kSteps{
    {{0, 1}}, {{0, 16}}, {{16, 9}}, std::vector<PlannedRows>(7, {0, 1}), std::vector<PlannedRows>(40, {1, 1}), {{0, 40}, {3, 2}, {0, 31}}};

/// Matrices that a step multiplies with: all but an embedding that is no output matrix too.
std::int64_t bytes_of_matrices(const LanguageModel& model) {
  std::int64_t bytes = 0, embedding = 0;
  bool has_output = false;
  for (const KernelUse& use : model.kernel_uses()) {
    if (use.operation != "gemm") continue;
    bytes += use.bytes;
    if (use.tensor == "token_embd.weight") embedding = use.bytes;
    has_output |= use.tensor == "output.weight";
  }
  return has_output ? bytes - embedding : bytes;
}

void check_stats(const TinyModel& shape, const std::string& kernels) {
  const TinyFile file(shape);
  const auto model = file.load(batch_config(kernels, 40, 64));
  CHECK(model->max_logit_rows() == 640);
  std::int64_t gemm_launches = 0;
  for (const auto& rows : kSteps) {
    const auto plan = plan_step(*model, rows);
    run_step(*model, plan);
    const StepStats stats = model->step_stats();
    INFO(shape.architecture << ", " << kernels << ", " << plan.num_tokens() << " rows of " << plan.num_seqs() << " sequences");
    CHECK(stats.rows == plan.num_tokens());
    CHECK(stats.logit_rows == plan.num_tokens());
    CHECK(stats.attention_launches == shape.num_layers);
    CHECK(stats.weight_bytes == bytes_of_matrices(*model));
    if (gemm_launches == 0) gemm_launches = stats.gemm_launches;
    CHECK(stats.gemm_launches == gemm_launches);
  }
  CHECK(gemm_launches <= 7 * shape.num_layers + 1);
}

/// Bytes that `steps` allocate once the same steps have run before.
std::size_t bytes_of_repeated_steps(LanguageModel& model, const std::vector<std::vector<PlannedRows>>& steps) {
  std::vector<kvpage::BatchPlan> plans;
  for (const auto& rows : steps) plans.push_back(plan_step(model, rows));
  std::size_t before = 0;
  for (const bool warm : {false, true}) {
    if (warm) before = allocated_bytes();
    for (const kvpage::BatchPlan& plan : plans) {
      const std::int64_t logit_rows = std::min(model.max_logit_rows(), std::ssize(plan.logit_rows));
      if (!model.forward(plan).ok() || !model.logits(0, logit_rows) || !model.argmax(0, logit_rows)) FAIL("a step failed");
      model.parallel(5, [](std::int64_t) {});
    }
  }
  return allocated_bytes() - before;
}

}  // namespace

TEST_CASE("engine.step.launches_and_weight_bytes_do_not_grow_with_its_rows", "[engine]") {
  for (const TinyModel& shape : {every_switch(), plain_model(), quantised_model()}) {
    for (const std::string& kernels : backend_names()) check_stats(shape, kernels);
  }
}

TEST_CASE("engine.step.argmax_is_that_of_the_logits", "[engine]") {
  for (const TinyModel& shape : {every_switch(), plain_model(), biased_model(), quantised_model()}) {
    const TinyFile file(shape);
    for (const std::string& kernels : backend_names()) {
      const auto model = file.load(batch_config(kernels, 4, 64));
      REQUIRE(model->forward(plan_step(*model, std::vector<PlannedRows>{{0, 9}, {0, 1}, {0, 20}})).ok());
      const auto logits = model->logits(0, 3);
      REQUIRE(logits);
      const std::int64_t width = model->spec().vocab_size;
      std::vector<std::uint64_t> ranks;
      for (std::int64_t i = 0; i < 3; ++i) ranks.push_back(kvpage::row_argmax(logits->data() + i * width, width).rank());
      for (std::int64_t first = 0; first < 3; ++first) {
        const auto argmax = model->argmax(first, 3 - first);
        REQUIRE(argmax);
        INFO(shape.architecture << ' ' << kernels << ", first " << first);
        for (std::size_t i = 0; i < argmax->size(); ++i) CHECK((*argmax)[i].rank() == ranks[i + static_cast<std::size_t>(first)]);
      }
    }
  }
}

TEST_CASE("engine.step.more_logits_than_the_buffer_holds_are_refused", "[engine]") {
  const TinyFile file(plain_model());
  auto config = batch_config("cpu", 4, 64);
  config.logit_rows = 8;
  const auto model = file.load(config);
  const std::vector<PlannedRows> rows{{0, 9}};
  const auto plan = plan_step(*model, rows);
  REQUIRE(model->forward(plan).ok());
  CHECK(model->logits(0, 8));
  CHECK(model->logits(8, 1));
  for (const auto& [first, count] : {std::pair{0, 9}, std::pair{8, 2}, std::pair{-1, 1}}) CHECK_FALSE(model->logits(first, count));
  config.logit_rows = 0;
  CHECK_THROWS_AS(file.load(config), kvpage::ConfigError);
}

TEST_CASE("engine.step.allocates_nothing_once_warm", "[engine]") {
  for (const TinyModel& shape : {every_switch(), plain_model(), quantised_model()}) {
    const TinyFile file(shape);
    for (const std::string& kv_type : kv_type_names()) {
      auto config = batch_config("cpu", 40, 64);
      config.kv_type = kv_type;
      const auto model = file.load(config);
      INFO(shape.architecture << ", " << kv_type);
      CHECK(bytes_of_repeated_steps(*model, kSteps) == 0);
    }
  }
}

TEST_CASE("engine.step.allocates_nothing_once_warm_on_a_real_model", "[engine]") {
  const GoldenModel golden = open_golden_model("smollm2");
  const auto model = golden.load("cpu", "", 2);
  CHECK(bytes_of_repeated_steps(*model, {{{0, 100}}, {{100, 1}}, {{200, 3}}, {{0, 100}}}) == 0);
}

TEST_CASE("engine.step.workers_do_each_part_of_the_callers_work_once", "[engine]") {
  const TinyFile file(plain_model());
  for (const auto& [kernels, threads] : {std::pair{"cpu", 1}, std::pair{"cpu", 3}, std::pair{"reference", 1}}) {
    const auto model = file.load(tiny_config(kernels, "f16", threads));
    for (const std::int64_t n : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> calls(static_cast<std::size_t>(n));
      model->parallel(n, [&](std::int64_t i) { ++calls[static_cast<std::size_t>(i)]; });
      INFO(kernels << ", " << threads << " threads, n " << n);
      CHECK(std::all_of(calls.begin(), calls.end(), [](const std::atomic<int>& count) { return count == 1; }));
    }
  }
}

TEST_CASE("engine.profile.counts_every_launch_and_changes_no_bit", "[engine]") {
  const TinyModel shape = quantised_model();
  const TinyFile file(shape);
  const auto model = file.load(batch_config("cpu", 4, 64));
  const auto plan = [&](std::int64_t first_pos, std::int64_t count) {
    return plan_step(*model, std::vector<PlannedRows>{{first_pos, count}, {first_pos, count}});
  };
  const auto copy = [](std::span<const float> logits) { return std::vector(logits.begin(), logits.end()); };
  const std::vector off{copy(run_step(*model, plan(0, 16))), copy(run_step(*model, plan(16, 1)))};
  StepProfile profile;
  model->profile_into(&profile);
  const std::vector on{copy(run_step(*model, plan(0, 16))), copy(run_step(*model, plan(16, 1)))};
  model->parallel(2, [](std::int64_t) {});
  model->profile_into(nullptr);
  CHECK(on == off);
  const std::int64_t layers = shape.num_layers;
  for (const auto* phase : {&profile.prefill, &profile.decode}) {
    CHECK(phase->steps == 1);
    CHECK(phase->rows == (phase == &profile.prefill ? 32 : 2));
    CHECK((*phase)[StepOperation::kEmbedding].launches == 1);
    CHECK((*phase)[StepOperation::kQkv].launches == layers);
    for (const StepOperation once : {StepOperation::kAppend, StepOperation::kAttention, StepOperation::kOutput, StepOperation::kGateUp,
                                     StepOperation::kDown}) {
      CHECK((*phase)[once].launches == layers);
      CHECK((*phase)[once].time_ns > 0);
    }
    CHECK((*phase)[StepOperation::kNormQuantize].launches == 2 * layers);
    CHECK((*phase)[StepOperation::kRope].launches == layers + 1);
    CHECK((*phase)[StepOperation::kQkv].cost.code_macs == phase->rows * layers * 3 * 96 * 96);
    CHECK((*phase)[StepOperation::kLogits].cost.code_macs == phase->rows * 272 * 96);
    std::int64_t operations_ns = 0;
    for (const OperationProfile& operation : phase->operations) operations_ns += operation.time_ns;
    CHECK(operations_ns > 0);
    CHECK(operations_ns <= phase->total_ns);
  }
  CHECK(profile.decode[StepOperation::kSample].launches == 1);
  // Two sequences: 16 rows see 1 .. 16 keys, then one row sees 17; scores and sums of 3 heads of 32 dims.
  CHECK(profile.prefill[StepOperation::kAttention].cost.float_macs == 2 * layers * 2 * 136 * 96);
  CHECK(profile.decode[StepOperation::kAttention].cost.float_macs == 2 * layers * 2 * 17 * 96);
  const std::int64_t steps = profile.decode.steps;
  run_step(*model, plan(17, 1));
  CHECK(profile.decode.steps == steps);
}

}  // namespace kvpage_test
