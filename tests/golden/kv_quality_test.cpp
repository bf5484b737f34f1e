/// \file What each precision of the KV cache costs in quality, on the golden rows.
#include "engine/scoring.hpp"
#include "golden/greedy_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace kvpage_test {
namespace {

/// What a KV format may add to the error of an exact cache.
struct KvLimit {
  const char* kv_type;
  double nll_share;  ///< of the summed prompt log-loss
  double logprob;    ///< mean |change of a token's log-probability|
};

struct ModelLimits {
  const char* model;
  std::vector<KvLimit> limits;
};

const ModelLimits kSmolLM2{"smollm2",
                           {{"f16", 0.0005, 0.002}, {"bf16", 0.0005, 0.004}, {"fp8", 0.005, 0.056}, {"int8", 0.005, 0.02},
                            {"int4", 0.01, 0.11}, {"int4-k4", 0.048, 0.15}}};
const ModelLimits kGemma3{"gemma3",
                          {{"f16", 0.0005, 0.002}, {"bf16", 0.0005, 0.002}, {"fp8", 0.002, 0.029}, {"int8", 0.005, 0.03},
                           {"int4", 0.01, 0.09}}};
const ModelLimits kQwen{"qwen0.5b", {{"f16", 0.0005, 0.002}, {"fp8", 0.005, 0.02}, {"int8", 0.005, 0.02}, {"int4", 0.01, 0.07}}};

struct FileScore {
  double prompt_nll = 0;
  std::vector<double> logprobs;
};

FileScore score_rows(kvpage::engine::LanguageModel& model, const std::vector<GreedyRow>& rows) {
  FileScore file;
  for (const GreedyRow& row : rows) {
    const auto score = kvpage::engine::score(model, row.prompt_ids, row.greedy_ids, model.step_tokens());
    if (!score) FAIL(row.name << ": " << score.error().message);
    file.prompt_nll += score->prompt_nll;
    for (const auto& token : score->continuation) file.logprobs.push_back(token.logprob);
  }
  return file;
}

FileScore golden_score(const std::vector<GreedyRow>& rows) {
  FileScore file;
  for (const GreedyRow& row : rows) {
    file.prompt_nll += row.prompt_nll;
    for (const auto& [logprob, margin] : row.logprob_and_margin) file.logprobs.push_back(logprob);
  }
  return file;
}

double mean_difference(const FileScore& a, const FileScore& b) {
  REQUIRE(a.logprobs.size() == b.logprobs.size());
  double sum = 0;
  for (std::size_t i = 0; i < a.logprobs.size(); ++i) sum += std::fabs(a.logprobs[i] - b.logprobs[i]);
  return sum / static_cast<double>(a.logprobs.size());
}

/// The format alone: float kernels, against the same with a float cache, on the rows with short prompts.
void check_format_alone(const ModelLimits& expected) {
  const GoldenModel golden = open_golden_model(expected.model);
  std::vector<GreedyRow> rows;
  for (const GreedyRow& row : golden.rows) {
    if (row.prompt_ids.size() <= 60) rows.push_back(row);
  }
  const FileScore exact = score_rows(*golden.load("reference", "f32", 0), rows);
  for (const KvLimit& limit : expected.limits) {
    const FileScore score = score_rows(*golden.load("reference", limit.kv_type, 0), rows);
    const double nll = score.prompt_nll / exact.prompt_nll - 1;
    const double logprob = mean_difference(score, exact);
    std::printf("%s %s: prompt_nll %+.3f %%, mean |d log p| %.4f\n", expected.model, limit.kv_type, 100 * nll, logprob);
    INFO(expected.model << " " << limit.kv_type);
    CHECK(std::fabs(nll) <= limit.nll_share);
    CHECK(logprob <= limit.logprob);
  }
}

/// With 8-bit activations any change of the cache, however small, moves their rounding: two runs then differ from each other by as
/// much as each from the exact result. So the comparison is with the golden floats, and the format may add its limit to `floor`, the
/// error of the same kernels with an exact cache.
void check_with_fast_kernels(const ModelLimits& expected, double floor, std::string_view kv_type) {
  const GoldenModel golden = open_golden_model(expected.model);
  const FileScore exact = golden_score(golden.rows);
  const auto limit = std::find_if(expected.limits.begin(), expected.limits.end(), [&](const KvLimit& l) { return l.kv_type == kv_type; });
  REQUIRE(limit != expected.limits.end());
  const FileScore score = score_rows(*golden.load("cpu", limit->kv_type, 1), golden.rows);
  const double nll = score.prompt_nll / exact.prompt_nll - 1;
  const double logprob = mean_difference(score, exact);
  std::printf("%s %s: prompt_nll %+.3f %%, mean |log p error| %.4f of at most %.4f\n", expected.model, limit->kv_type, 100 * nll, logprob,
              floor + limit->logprob);
  CHECK(std::fabs(nll) <= limit->nll_share);
  CHECK(logprob <= floor + limit->logprob);
}

}  // namespace

TEST_CASE("golden.kv_quality.cpu_smollm2_int8", "[golden]") { check_with_fast_kernels(kSmolLM2, 0.033, "int8"); }
TEST_CASE("golden.kv_quality.cpu_smollm2_int4", "[golden][night]") { check_with_fast_kernels(kSmolLM2, 0.033, "int4"); }
TEST_CASE("golden.kv_quality.cpu_gemma3_int4", "[golden]") { check_with_fast_kernels(kGemma3, 0.0226, "int4"); }
TEST_CASE("golden.kv_quality.cpu_qwen0.5b_int8", "[golden][night]") { check_with_fast_kernels(kQwen, 0.0073, "int8"); }
TEST_CASE("golden.kv_quality.cpu_qwen0.5b_fp8", "[golden][night]") { check_with_fast_kernels(kQwen, 0.0073, "fp8"); }
TEST_CASE("golden.kv_quality.cpu_gemma3_int8", "[golden][night]") { check_with_fast_kernels(kGemma3, 0.0226, "int8"); }
TEST_CASE("golden.kv_quality.cpu_qwen0.5b_int4", "[golden][night]") { check_with_fast_kernels(kQwen, 0.0073, "int4"); }
TEST_CASE("golden.kv_quality.format_alone_smollm2", "[golden][night]") { check_format_alone(kSmolLM2); }
TEST_CASE("golden.kv_quality.format_alone_gemma3", "[golden][night]") { check_format_alone(kGemma3); }
TEST_CASE("golden.kv_quality.format_alone_qwen0.5b", "[golden][night]") { check_format_alone(kQwen); }

}  // namespace kvpage_test
