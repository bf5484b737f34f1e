/// \file The rows of greedy_<model>.jsonl, and the model that they are about.
#pragma once

#include "engine/loader/gguf.hpp"
#include "engine/model/language_model.hpp"
#include "support/catch.hpp"
#include "support/environment.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvpage_test {

/// What another engine answered to one prompt, greedily, with floats everywhere.
struct GreedyRow {
  std::string name;
  std::string prompt;
  std::vector<kvpage::TokenId> prompt_ids;
  double prompt_nll = 0;
  std::vector<std::pair<kvpage::TokenId, double>> first_top10;
  std::vector<kvpage::TokenId> greedy_ids;
  std::vector<std::pair<double, double>> logprob_and_margin;  ///< [greedy_ids.size()], margin to the second best
  std::string greedy_text;
};

/// All rows of tests/data/golden/greedy_<file_name>.jsonl.
inline std::vector<GreedyRow> read_greedy_rows(const std::string& file_name) {
  std::ifstream file(data_dir() / "golden" / ("greedy_" + file_name + ".jsonl"));
  REQUIRE(file);
  std::vector<GreedyRow> rows;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    rows.push_back({json.at("name"), json.at("prompt"), json.at("prompt_ids"), json.at("prompt_nll"), json.at("first_top10"),
                    json.at("greedy_ids"), json.at("greedy_logprob_and_margin"), json.at("greedy_text")});
    REQUIRE(rows.back().greedy_ids.size() == rows.back().logprob_and_margin.size());
  }
  return rows;
}

inline const GreedyRow& row_named(const std::vector<GreedyRow>& rows, std::string_view name) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const GreedyRow& row) { return row.name == name; });
  REQUIRE(found != rows.end());
  return *found;
}

/// The part of the golden file's name that stands for a model.
inline std::string golden_name(std::string_view model) {
  return model == "qwen0.5b" ? "qwen2.5-coder-0.5b" : model == "qwen1.5b" ? "qwen2.5-coder-1.5b" : std::string(model);
}

/// A real model file with its golden rows.
struct GoldenModel {
  std::vector<GreedyRow> rows;
  std::unique_ptr<kvpage::engine::Gguf> file;

  /// `kv_type` "" = the default of the kernels, `num_threads` 0 = all.
  std::unique_ptr<kvpage::engine::LanguageModel> load(std::string kernels, std::string kv_type, int num_threads) const {
    const auto spec = kvpage::engine::read_model_spec(*file);
    if (!spec) FAIL(spec.error().to_string());
    kvpage::engine::ModelConfig config;
    config.kernels = std::move(kernels), config.kv_type = std::move(kv_type);
    config.pool_tokens = 1024;
    config.num_threads = num_threads;
    auto model = kvpage::engine::load_language_model(*file, *spec, config);
    if (!model) FAIL(model.error().to_string());
    return std::move(*model);
  }
};

/// A missing file fails the test, except that of the optional model.
inline GoldenModel open_golden_model(std::string_view model) {
  const auto path = model_path(model);
  if (model == "qwen1.5b" && !std::filesystem::exists(path)) skip("tools/fetch_model.sh qwen1.5b was not run");
  INFO("tools/fetch_model.sh " << model << " fetches " << path);
  auto file = kvpage::engine::Gguf::open(path);
  if (!file) FAIL(file.error().to_string());
  return {read_greedy_rows(golden_name(model)), std::make_unique<kvpage::engine::Gguf>(std::move(*file))};
}

}  // namespace kvpage_test
