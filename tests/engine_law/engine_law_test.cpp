/// \file Equivalence of the engine: text and logits of a request, bit by bit, whatever else happens; the code that users run, no mode.
#include "engine_law/conditions.hpp"
#include "engine/tiny_models.hpp"
#include "engine_batching/hooked_model.hpp"
#include "golden/greedy_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

namespace kvpage_test {
namespace {

using kvpage::engine::GenerationRequest;
using kvpage::engine::LanguageModel;
using kvpage::engine::ModelConfig;

/// One model file, loaded once per number of threads and size of pool that conditions ask for.
class LawModels {
 public:
  using Load = std::function<std::unique_ptr<LanguageModel>(const ModelConfig&)>;

  LawModels(Load load, std::string kv_type, std::int64_t block_size) : load_(std::move(load)) {
    config_.kv_type = std::move(kv_type);
    config_.block_size = block_size;
    config_.pool_tokens = config_.step_tokens = kLawContextTokens;
  }
  /// What the small pool is to hold. Layers behind windows need few pages in the end, and many while a chunk runs: a run tells.
  void set_small_pool(std::int64_t used_blocks) { small_pool_blocks_ = used_blocks + used_blocks / 10; }
  LanguageModel& model(const LawCondition& condition) {
    std::unique_ptr<LanguageModel>& model = models_[{condition.num_threads, condition.small_pool}];
    if (model != nullptr) return *model;
    config_.num_threads = condition.num_threads;
    config_.num_seqs = 5;
    config_.pool_blocks = condition.small_pool ? small_pool_blocks_ : 0;
    model = load_(config_);
    return *model;
  }

 private:
  Load load_;
  ModelConfig config_;
  std::int64_t small_pool_blocks_ = 0;
  std::map<std::pair<int, bool>, std::unique_ptr<LanguageModel>> models_;
};

/// Runs the request in one shot, then under each condition, and requires the same bits.
void require_law(LawModels& models, const GenerationRequest& subject, const std::vector<LawCondition>& conditions) {
  StepWork work;
  const auto run = [&](const LawCondition& condition) {
    INFO(condition.name);
    const LawOutcome outcome = run_law(models.model(condition), condition, subject, work);
    condition.require_happened(outcome);
    return outcome;
  };
  LawCondition small_chunks = one_shot();
  small_chunks.max_chunk_tokens = kLawSmallChunkTokens;
  small_chunks.require_happened = [](const LawOutcome&) {};
  models.set_small_pool(run(small_chunks).counters.peak_used_blocks);
  const LawBits want = run(one_shot()).bits;
  REQUIRE(std::ssize(want.ids) == kLawNewTokens);
  REQUIRE(want.logprobs.size() == want.ids.size());
  REQUIRE(want.logits.size() == want.ids.size());
  REQUIRE(std::set<TokenId>(want.ids.begin(), want.ids.end()).size() >= kLawDistinctTokens);
  for (const LawCondition& condition : conditions) {
    const LawBits got = run(condition).bits;
    INFO(condition.name);
    CHECK(got.ids == want.ids);
    CHECK(got.logprobs == want.logprobs);
    CHECK(got.logits == want.logits);
  }
  work.require_one_forward_per_step(kLawPromptTokens);
  std::printf("%zu conditions, %zu tokens each\n", conditions.size(), want.ids.size());
}

void tiny_law(TinyModel shape, const std::vector<std::string>& kv_types, std::uint64_t num_mixed) {
  shape.context = 2048;
  const TinyFile file(shape);
  for (const std::string& kv_type : kv_types) {
    INFO(shape.architecture << ", " << kv_type);
    LawModels models([&](const ModelConfig& config) { return file.load(config); }, kv_type, 16);
    const GenerationRequest subject = law_request(some_ids(kLawPromptTokens, 5));
    require_law(models, subject, law_conditions(subject, shape.vocab_size));
    require_law(models, subject, more_conditions(subject, shape.vocab_size, num_mixed));
  }
}

/// 800 tokens of text that the golden rows hold.
std::vector<TokenId> long_text(const GoldenModel& golden) {
  const GreedyRow &story = row_named(golden.rows, "prose_long"), &more = row_named(golden.rows, "prose");
  std::vector<TokenId> ids = story.prompt_ids;
  ids.insert(ids.end(), story.greedy_ids.begin(), story.greedy_ids.end());
  ids.insert(ids.end(), more.prompt_ids.begin(), more.prompt_ids.end());
  REQUIRE(std::ssize(ids) >= kLawPromptTokens);
  ids.resize(kLawPromptTokens);
  return ids;
}

void real_law(std::string_view name, const std::vector<std::string>& kv_types, std::uint64_t num_mixed) {
  const GoldenModel golden = open_golden_model(name);
  const auto spec = kvpage::engine::read_model_spec(*golden.file).value();
  for (const std::string& kv_type : kv_types) {
    INFO(kv_type);
    const auto load = [&](const ModelConfig& config) {
      auto model = kvpage::engine::load_language_model(*golden.file, spec, config);
      if (!model) FAIL(model.error().to_string());
      return std::move(*model);
    };
    LawModels models(load, kv_type, kvpage::engine::kDefaultBlockSize);
    const GenerationRequest subject = law_request(long_text(golden));
    require_law(models, subject, law_conditions(subject, spec.vocab_size));
    if (num_mixed > 0) require_law(models, subject, more_conditions(subject, spec.vocab_size, num_mixed));
  }
}

}  // namespace

TEST_CASE("engine.law.quantised_weights", "[engine_law]") { tiny_law(quantised_model(), {"f16", "int8"}, 10); }
TEST_CASE("engine.law.every_switch_with_windows", "[engine_law]") { tiny_law(every_switch(), {"f16", "int4"}, 10); }
TEST_CASE("engine.law.plain_model", "[engine_law]") { tiny_law(plain_model(), {"f16"}, 10); }
TEST_CASE("engine.law.a_real_model", "[engine_law]") { real_law("smollm2", {""}, 0); }

TEST_CASE("engine.law.a_model_whose_last_bit_depends_on_its_batch_is_found", "[engine_law]") {
  TinyModel shape = plain_model();
  shape.context = 2048;
  const TinyFile file(shape);
  LawModels models([&](const ModelConfig& config) { return file.load(config); }, "f16", 16);
  const GenerationRequest subject = law_request(some_ids(kLawPromptTokens, 5));
  HookedModel faulty(models.model(one_shot()));
  std::int64_t num_seqs = 0;
  faulty.before_forward = [&](const kvpage::BatchPlan& plan) {
    num_seqs = plan.num_seqs();
    return kvpage::Status{};
  };
  faulty.on_logits = [&](std::int64_t, std::span<float> logits) {
    if (num_seqs == 7) logits.back() = std::nextafter(logits.back(), 100.0f);
  };
  StepWork work;
  const LawBits want = run_law(faulty, one_shot(), subject, work).bits;
  std::int64_t num_found = 0;
  for (const LawCondition& condition : law_conditions(subject, shape.vocab_size)) {
    if (condition.small_pool) continue;
    INFO(condition.name);
    const bool equal = run_law(faulty, condition, subject, work).bits.logits == want.logits;
    CHECK(equal == (condition.ahead.size() + condition.behind.size() != 6));
    num_found += equal ? 0 : 1;
  }
  CHECK(num_found == 1);
}

TEST_CASE("engine.law.every_cache_type_and_many_mixtures", "[engine_law][night]") {
  for (const TinyModel& shape : {quantised_model(), every_switch(), plain_model(), biased_model()}) {
    tiny_law(shape, kvpage::engine::kv_type_names(), 300);
  }
}
TEST_CASE("engine.law.real_models_with_windows_and_biases", "[engine_law][night]") {
  real_law("smollm2", {"int8", "int4"}, 20);
  real_law("gemma3", {"", "int8"}, 20);
  real_law("qwen0.5b", {"", "int8"}, 20);
}

}  // namespace kvpage_test
