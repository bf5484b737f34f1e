/// \file Real models against what another engine computed: every golden row, its own ids fed verbatim.
#include "golden/greedy_comparator.hpp"

#include <cstdio>

namespace kvpage_test {
namespace {

/// Scores `rows` and returns the comparator, which knows the sums.
GreedyComparator check_rows(kvpage::engine::LanguageModel& model, const std::vector<GreedyRow>& rows) {
  GreedyComparator comparator(tolerance_of(model));
  for (const GreedyRow& row : rows) {
    const auto score = kvpage::engine::score(model, row.prompt_ids, row.greedy_ids, model.step_tokens());
    if (!score) FAIL(row.name << ": " << score.error().message);
    for (const std::string& fault : comparator.faults(row, *score)) FAIL_CHECK(fault);
  }
  return comparator;
}

void report(std::string_view model, const GreedyComparator& comparator, std::size_t rows_in_file) {
  std::printf("greedy_%s.jsonl: %zu rows checked / %zu rows in the file; %s\n", golden_name(model).c_str(), comparator.rows(), rows_in_file,
              comparator.summary().c_str());
}

/// All rows with the fast kernels, on one thread, as other test cases run beside. Returns the mean error of a log-probability.
double check_cpu(std::string_view name, const std::string& kv_type = "") {
  const GoldenModel golden = open_golden_model(name);
  const auto model = golden.load("cpu", kv_type, 1);
  CHECK(model->kv_type() == (kv_type.empty() ? "f16" : kv_type));
  GreedyComparator comparator = check_rows(*model, golden.rows);
  for (const std::string& fault : comparator.file_faults()) FAIL_CHECK(fault);
  report(name, comparator, golden.rows.size());
  CHECK(comparator.rows() == golden.rows.size());
  return comparator.mean_error();
}

/// llama.cpp's mean error on the same rows with the same caches (docs/quality.md), and what the fast kernels may have of it. 8-bit
/// rounding is chaotic, so a single run scatters by 4 % of its error; caches that differ in the last bits are equivalent runs.
void check_error(std::string_view name, const std::vector<std::string>& kv_types, double peer_error, double share) {
  double sum = 0;
  for (const std::string& kv_type : kv_types) sum += check_cpu(name, kv_type);
  const double error = sum / static_cast<double>(kv_types.size());
  std::printf("%s: mean |log-probability error| of %zu runs %.4f, %.3f of the peer's %.4f\n", golden_name(name).c_str(), kv_types.size(),
              error, error / peer_error, peer_error);
  CHECK(error <= share * peer_error);
}

/// Longest prompt that the reference kernels compute in a normal run.
constexpr std::size_t kShortPromptIds = 60;

/// Rows that the reference kernels check in a normal run.
std::size_t num_short_rows(std::string_view model) { return model == "gemma3" ? 4 : 11; }

/// Share `part` of `num_parts` of the short rows.
void check_reference(std::string_view name, std::size_t part, std::size_t num_parts) {
  const GoldenModel golden = open_golden_model(name);
  std::vector<GreedyRow> rows;
  std::size_t num_short = 0;
  for (const GreedyRow& row : golden.rows) {
    if (row.prompt_ids.size() <= kShortPromptIds && num_short++ % num_parts == part) rows.push_back(row);
  }
  CHECK(num_short == num_short_rows(name));
  const auto model = golden.load("reference", "", 1);
  CHECK(model->kv_type() == "f32");
  const GreedyComparator comparator = check_rows(*model, rows);
  report(name, comparator, golden.rows.size());
  CHECK(comparator.rows() == (num_short + num_parts - 1 - part) / num_parts);
}

void check_reference_whole(std::string_view name) {
  const GoldenModel golden = open_golden_model(name);
  const auto model = golden.load("reference", "", 1);
  GreedyComparator comparator = check_rows(*model, golden.rows);
  for (const std::string& fault : comparator.file_faults()) FAIL_CHECK(fault);
  report(name, comparator, golden.rows.size());
  CHECK(comparator.rows() == golden.rows.size());
}

}  // namespace

TEST_CASE("golden.greedy.reference_qwen0.5b_1_of_4", "[golden]") { check_reference("qwen0.5b", 0, 4); }
TEST_CASE("golden.greedy.reference_qwen0.5b_2_of_4", "[golden]") { check_reference("qwen0.5b", 1, 4); }
TEST_CASE("golden.greedy.reference_qwen0.5b_3_of_4", "[golden]") { check_reference("qwen0.5b", 2, 4); }
TEST_CASE("golden.greedy.reference_qwen0.5b_4_of_4", "[golden]") { check_reference("qwen0.5b", 3, 4); }
TEST_CASE("golden.greedy.reference_smollm2_1_of_2", "[golden]") { check_reference("smollm2", 0, 2); }
TEST_CASE("golden.greedy.reference_smollm2_2_of_2", "[golden]") { check_reference("smollm2", 1, 2); }
TEST_CASE("golden.greedy.reference_gemma3", "[golden]") { check_reference("gemma3", 0, 1); }

TEST_CASE("golden.greedy.cpu_qwen0.5b", "[golden]") { check_error("qwen0.5b", {"f16"}, 0.0095, 0.95); }
TEST_CASE("golden.greedy.cpu_gemma3", "[golden]") { check_error("gemma3", {"f16"}, 0.0347, 0.75); }
TEST_CASE("golden.greedy.cpu_smollm2", "[golden]") { check_error("smollm2", {"", "f32", "bf16"}, 0.0311, 1.0); }
TEST_CASE("golden.greedy.cpu_qwen1.5b", "[golden][qwen1.5b]") { check_cpu("qwen1.5b"); }

TEST_CASE("golden.greedy.reference_smollm2_whole", "[golden][night]") { check_reference_whole("smollm2"); }
TEST_CASE("golden.greedy.reference_gemma3_whole", "[golden][night]") { check_reference_whole("gemma3"); }
TEST_CASE("golden.greedy.reference_qwen0.5b_whole", "[golden][night]") { check_reference_whole("qwen0.5b"); }
TEST_CASE("golden.greedy.reference_qwen1.5b_whole", "[golden][night][qwen1.5b]") { check_reference_whole("qwen1.5b"); }

}  // namespace kvpage_test
