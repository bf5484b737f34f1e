/// \file Which kernels serve a model: forced instruction sets, plans for those that are not here, and strictness about slow ones.
#include "engine/planned_steps.hpp"
#include "support/environment.hpp"
#include "support/isa.hpp"

#include <algorithm>

namespace kvpage_test {
namespace {

using namespace kvpage::engine;

std::vector<float> logits_with(const TinyFile& file, const std::string& isa) {
  auto config = batch_config("cpu", 4, 64);
  config.isa = isa;
  const auto model = file.load(config);
  if (!isa.empty()) CHECK(model->isa() == isa);
  const std::vector<PlannedRows> rows{{0, 23}, {0, 1}, {0, 7}};
  const auto logits = run_step(*model, plan_step(*model, rows));
  return {logits.begin(), logits.end()};
}

std::vector<KernelUse> planned_uses(const Gguf& file, const ModelConfig& config) {
  const auto spec = read_model_spec(file);
  REQUIRE(spec);
  auto uses = plan_kernel_uses(file, *spec, config);
  if (!uses) FAIL(uses.error().to_string());
  return std::move(*uses);
}

/// On every instruction set and with every cache all operations run on their fast kernels, all matrices on panels.
void check_no_operation_is_slow(std::string_view name) {
  const auto file = Gguf::open(model_path(name));
  if (!file) FAIL(file.error().to_string());
  const auto matrices =
      std::count_if(file->tensors().begin(), file->tensors().end(), [](const GgufTensor& tensor) { return !tensor.is_vector(); });
  for (const std::string& isa : isa_names()) {
    for (const std::string& kv_type : kv_type_names()) {
      ModelConfig config;
      config.isa = isa, config.kv_type = kv_type;
      const auto uses = planned_uses(*file, config);
      INFO(name << ", " << isa << ", " << kv_type);
      CHECK(require_fast_kernels(*file, uses));
      CHECK(std::all_of(uses.begin(), uses.end(), [&](const KernelUse& use) { return use.isa == isa && !use.kernel.empty(); }));
      CHECK(std::count_if(uses.begin(), uses.end(), [](const KernelUse& use) {
              return use.operation == "gemm" && use.bytes > 0 && !use.in_file && use.kernel.find(" panels") != std::string::npos;
            }) == matrices);
    }
  }
}

}  // namespace

TEST_CASE("engine.isa.every_instruction_set_gives_the_same_bits", "[engine]") {
  for (const TinyModel& shape : {every_switch(), quantised_model()}) {
    const TinyFile file(shape);
    const auto want = logits_with(file, "generic");
    CHECK(logits_with(file, "") == want);
    for (const kvpage::Isa isa : runnable_isas()) {
      INFO(shape.architecture << ", " << kvpage::isa_name(isa));
      CHECK(logits_with(file, kvpage::isa_name(isa)) == want);
    }
  }
}

TEST_CASE("engine.isa.one_that_this_processor_lacks_is_refused_by_the_missing_feature", "[engine]") {
  const TinyFile file(plain_model());
  for (const kvpage::Isa isa : kvpage::kAllIsas) {
    const char* missing = kvpage::missing_feature(isa, kvpage::detect_cpu_features());
    auto config = tiny_config("cpu");
    config.isa = kvpage::isa_name(isa);
    INFO(config.isa);
    if (missing == nullptr) CHECK(file.load(config)->isa() == config.isa);
    else CHECK_THROWS_WITH(file.load(config), missing);
  }
  auto unknown = tiny_config("cpu");
  unknown.isa = "sse";
  const auto refused = file.try_load(unknown);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().to_string().find("sse") != std::string::npos);
  auto reference = tiny_config("reference");
  CHECK(file.load(reference)->isa().empty());
  reference.isa = "generic";
  CHECK_THROWS_AS(file.load(reference), kvpage::ConfigError);
}

TEST_CASE("engine.kernels.a_plan_says_what_a_load_uses", "[engine]") {
  for (const TinyModel& shape : {every_switch(), quantised_model()}) {
    const TinyFile file(shape);
    for (const std::string& kernels : backend_names()) {
      const auto config = tiny_config(kernels, "int8");
      const auto model = file.load(config);
      const auto loaded = model->kernel_uses(), planned = planned_uses(file.gguf(), config);
      REQUIRE(planned.size() == loaded.size());
      for (std::size_t i = 0; i < loaded.size(); ++i) {
        INFO(kernels << ", " << loaded[i].tensor << ", " << loaded[i].operation);
        CHECK(planned[i].tensor == loaded[i].tensor);
        CHECK(planned[i].operation == loaded[i].operation);
        CHECK(planned[i].kernel == loaded[i].kernel);
        CHECK(planned[i].isa == model->isa());
        CHECK(planned[i].bytes == loaded[i].bytes);
        CHECK(planned[i].slow_reason == loaded[i].slow_reason);
      }
    }
  }
}

TEST_CASE("engine.kernels.no_operation_of_a_real_model_is_slow_on_any_instruction_set", "[engine]") {
  for (const char* name : {"smollm2", "gemma3", "qwen0.5b"}) check_no_operation_is_slow(name);
}

TEST_CASE("engine.kernels.no_operation_of_the_largest_model_is_slow", "[engine][qwen1.5b]") {
  if (!std::filesystem::exists(model_path("qwen1.5b"))) skip("tools/fetch_model.sh qwen1.5b was not run");
  check_no_operation_is_slow("qwen1.5b");
}

TEST_CASE("engine.kernels.strictness_refuses_what_is_slow_and_nothing_else", "[engine]") {
  const TinyFile narrow(every_switch());  // heads of 8 dims: half a vector of lanes
  auto config = tiny_config("cpu");
  CHECK(narrow.try_load(config));
  config.strict_kernels = true;
  const auto refused = narrow.try_load(config);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().to_string().find("head_dim") != std::string::npos);
  CHECK(refused.error().to_string().find("paged_attention") != std::string::npos);
  CHECK(TinyFile(quantised_model()).try_load(config));
  const std::vector<KernelUse> uses{{"a.weight", "gemm", "panels", "generic", 32, "", false},
                                    {"b.weight", "gemm", "decoded floats", "generic", 32, "no panel shape", true}};
  const auto slow = require_fast_kernels(narrow.gguf(), uses);
  REQUIRE_FALSE(slow);
  CHECK(slow.error().item == "b.weight");
  CHECK(slow.error().found.find("no panel shape") != std::string::npos);
}

}  // namespace kvpage_test
