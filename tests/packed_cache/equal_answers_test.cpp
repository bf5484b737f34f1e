/// \file A model from a cache file is the model that was packed, bit for bit.
#include "engine/planned_steps.hpp"

#include <algorithm>
#include <cstring>
#include <set>

namespace kvpage_test {
namespace {

using kvpage::engine::ModelConfig;

/// Logits of a step of 20 tokens, and what the load reported.
struct Answer {
  std::vector<float> logits;
  std::set<std::string> stages;
  std::vector<std::string> notes;
};

Answer answer_of(const TinyFile& file, ModelConfig config) {
  Answer answer;
  config.progress = [&](const kvpage::engine::Progress& report) { answer.stages.emplace(report.stage); };
  config.note = [&](std::string_view text) { answer.notes.emplace_back(text); };
  const auto model = file.load(config);
  const PlannedRows rows{.count = 20};
  const auto logits = run_step(*model, plan_step(*model, std::span(&rows, 1)));
  answer.logits.assign(logits.begin(), logits.end());
  return answer;
}

/// A model whose matrices have the format W.
template <class W>
TinyModel model_of() {
  TinyModel model = quantised_model();
  model.hidden = model.ffn = 256;
  model.num_q_heads = model.num_kv_heads = 2, model.head_dim = 128;
  model.format = &kvpage::kWeightFormatInfo<W>;
  return model;
}

void check_equal(const TinyModel& model) {
  const TinyFile file{model};
  const TempDir dir;
  ModelConfig config = batch_config("cpu", 2, 64);
  const Answer packed = answer_of(file, config);
  config.packed_cache = (dir / "new" / "folder").string();
  const Answer first = answer_of(file, config);
  const Answer second = answer_of(file, config);
  CHECK(packed.stages.count("writing") + packed.stages.count("reading") == 0);
  CHECK(first.stages.count("writing") == 1);
  CHECK(first.stages.count("reading") == 0);
  CHECK(second.stages.count("writing") == 0);
  CHECK(second.stages.count("reading") == 1);
  for (const Answer* answer : {&first, &second}) {
    CHECK(answer->notes.empty());
    REQUIRE(answer->logits.size() == packed.logits.size());
    CHECK(std::memcmp(answer->logits.data(), packed.logits.data(), packed.logits.size() * sizeof(float)) == 0);
  }
}

}  // namespace

TEST_CASE("packed_cache.answers.are_the_same_bits_with_and_without", "[packed_cache]") {
  check_equal(every_switch());
  check_equal(plain_model());
  check_equal(quantised_model());
  check_equal(model_of<kvpage::Q4_1>());
  check_equal(model_of<kvpage::Q4_K>());
  check_equal(model_of<kvpage::Q6_K>());
}

TEST_CASE("packed_cache.answers.a_damaged_file_changes_nothing_but_a_note", "[packed_cache]") {
  const TinyFile file{quantised_model()};
  const TempDir dir;
  ModelConfig config = batch_config("cpu", 2, 64);
  config.packed_cache = (dir / "cache").string();
  const Answer good = answer_of(file, config);
  for (const auto& entry : std::filesystem::directory_iterator(config.packed_cache)) {
    std::filesystem::resize_file(entry.path(), std::filesystem::file_size(entry.path()) - 1);
  }
  const Answer repaired = answer_of(file, config);
  CHECK(repaired.notes.size() == 1);
  CHECK(repaired.stages.count("writing") == 1);
  CHECK(repaired.logits == good.logits);
  const Answer again = answer_of(file, config);
  CHECK(again.notes.empty());
  CHECK(again.stages.count("reading") == 1);
  CHECK(again.logits == good.logits);
}

TEST_CASE("packed_cache.answers.a_backend_that_packs_nothing_says_so", "[packed_cache]") {
  const TinyFile file{plain_model()};
  const TempDir dir;
  ModelConfig config = batch_config("reference", 2, 64);
  config.num_threads = 1;
  config.packed_cache = (dir / "cache").string();
  const Answer answer = answer_of(file, config);
  REQUIRE(answer.notes.size() == 1);
  CHECK(answer.notes[0].find("no weights are packed") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(config.packed_cache));
}

}  // namespace kvpage_test
