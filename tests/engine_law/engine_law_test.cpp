/// \file Equivalence of the engine: text and logits of a request, bit by bit, whatever else happens; the code that users run, no mode.
#include "engine_law/conditions.hpp"
#include "engine_law/guarded_model.hpp"
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
  void set_small_pool(std::int64_t used_blocks, const GenerationRequest& subject) {
    small_pool_blocks_ = std::max(used_blocks + used_blocks / 10, blocks_of_beam(subject));
    std::erase_if(models_, [](const auto& entry) { return entry.first.second; });
  }
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
  /// What a beam keeps in reserve, or it would end early: each answer may hold one block more while it is copied.
  std::int64_t blocks_of_beam(const GenerationRequest& subject) const {
    const std::int64_t shared = kLawPromptTokens / config_.block_size;
    const std::int64_t all = (kLawPromptTokens + kLawNewTokens) / config_.block_size + 1;
    return subject.beam_width == 0 ? 0 : shared + subject.beam_width * (all - shared + 1);
  }

  Load load_;
  ModelConfig config_;
  std::int64_t small_pool_blocks_ = 0;
  std::map<std::pair<int, bool>, std::unique_ptr<LanguageModel>> models_;
};

/// Answers of full length with many different tokens, and a row of logits for each token.
void require_bits(const LawBits& bits, const GenerationRequest& subject) {
  REQUIRE(std::ssize(bits.answers) == subject.num_candidates());
  for (const AnswerBits& answer : bits.answers) {
    REQUIRE(std::ssize(answer.ids) == kLawNewTokens);
    REQUIRE(answer.logprobs.size() == answer.ids.size());
    if (subject.beam_width == 0) REQUIRE(std::set<TokenId>(answer.ids.begin(), answer.ids.end()).size() >= kLawDistinctTokens);
  }
  REQUIRE(bits.logits.size() >= static_cast<std::size_t>(kLawNewTokens));
}

/// Runs the request in one shot, then under each condition, and requires the same bits. Returns them.
LawBits require_law(LawModels& models, const GenerationRequest& subject, const std::vector<LawCondition>& conditions) {
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
  models.set_small_pool(run(small_chunks).counters.peak_used_blocks, subject);
  LawCondition cold = one_shot();
  if (subject.num_candidates() > 1) cold.require_happened = [](const LawOutcome&) {};  // its checks are about one answer
  const LawBits want = run(cold).bits;
  require_bits(want, subject);
  for (const LawCondition& condition : conditions) {
    const LawBits got = run(condition).bits;
    INFO(condition.name);
    CHECK(got.answers == want.answers);
    CHECK(got.logits == want.logits);
  }
  work.require_one_forward_per_step(kLawPromptTokens);
  std::printf("%zu conditions, %zu answers of %zu tokens each\n", conditions.size(), want.answers.size(), want.answers.front().ids.size());
  return want;
}

/// Several answers, whose first one is that of the request alone, and beams.
void require_law_of_answers(LawModels& models, const std::vector<TokenId>& prompt, std::int64_t vocab_size, bool has_windows,
                            const LawBits& alone) {
  const GenerationRequest drawn = law_request_of(prompt, 3, false);
  const LawBits answers = require_law(models, drawn, answers_conditions(drawn, vocab_size));
  CHECK(answers.answers.front() == alone.answers.front());
  CHECK(answers.answers[1] != answers.answers[0]);
  CHECK(answers.answers[2] != answers.answers[1]);
  const GenerationRequest beams = law_request_of(prompt, 3, true);
  std::vector<LawCondition> conditions = answers_conditions(beams, vocab_size);
  // Behind windows a beam reserves the blocks of all its answers: a pool that it fits into is not small for one that takes blocks from it.
  if (has_windows) std::erase_if(conditions, [](const LawCondition& condition) { return condition.small_pool; });
  require_law(models, beams, conditions);
}

void tiny_law(TinyModel shape, const std::vector<std::string>& kv_types, std::uint64_t num_mixed) {
  shape.context = 2048;
  const TinyFile file(shape);
  for (const std::string& kv_type : kv_types) {
    INFO(shape.architecture << ", " << kv_type);
    LawModels models([&](const ModelConfig& config) { return file.load(config); }, kv_type, 16);
    const GenerationRequest subject = law_request(some_ids(kLawPromptTokens, 5));
    const LawBits alone = require_law(models, subject, law_conditions(subject, shape.vocab_size));
    require_law(models, subject, more_conditions(subject, shape.vocab_size, num_mixed));
    require_law_of_answers(models, subject.prompt_ids, shape.vocab_size, shape.window > 0, alone);
  }
}

/// The bits of an ordinary model by one on guarded memory: alone, and where pages are copied, saved, brought back and computed again.
void guarded_law(TinyModel shape, const std::string& kv_type) {
  INFO(shape.architecture << ", " << kv_type);
  shape.context = 2048;
  const TinyFile file(shape);
  const GenerationRequest subject = law_request(some_ids(kLawPromptTokens, 5));
  LawModels ordinary([&](const ModelConfig& config) { return file.load(config); }, kv_type, 16);
  StepWork work;
  const LawBits want = run_law(ordinary.model(one_shot()), one_shot(), subject, work).bits;
  std::vector<LawCondition> conditions = law_conditions(subject, shape.vocab_size);
  std::erase_if(conditions, [](const LawCondition& condition) { return condition.host_tier_pages == 0 && !condition.small_pool; });
  REQUIRE(conditions.size() >= 3);
  LawModels models([&](const ModelConfig& config) { return load_guarded(file.gguf(), config); }, kv_type, 16);
  CHECK(require_law(models, subject, conditions) == want);
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
TEST_CASE("engine.law.key_biases", "[engine_law]") { tiny_law(biased_model(), {"int8", "int4"}, 4); }
TEST_CASE("engine.law.plain_model", "[engine_law]") { tiny_law(plain_model(), {"f16"}, 10); }
TEST_CASE("engine.law.a_real_model", "[engine_law]") { real_law("smollm2", {""}, 0); }

TEST_CASE("engine.law.guarded_memory_changes_no_bit", "[engine_law]") {
  guarded_law(every_switch(), "f16");
  guarded_law(biased_model(), "int8");
}

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
