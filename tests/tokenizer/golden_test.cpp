/// \file Ids of real vocabularies, row by row against another engine.
#include "tokenizer/model_tokenizer.hpp"

#include <nlohmann/json.hpp>

#include <fstream>
#include <iostream>
#include <span>
#include <sstream>
#include <vector>

namespace {

using kvpage::TokenId;
using kvpage::engine::Tokenizer;

struct GoldenRow {
  std::string text;
  bool parse_special;
  std::vector<TokenId> ids;
};

std::vector<GoldenRow> read_rows(std::string_view file_name) {
  const auto path = kvpage_test::data_dir() / "golden" / file_name;
  std::ifstream file(path);
  REQUIRE(file);
  std::vector<GoldenRow> rows;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    rows.push_back({json.at("text"), json.at("parse_special"), json.at("ids")});
  }
  return rows;
}

std::string show(std::span<const TokenId> ids) {
  std::ostringstream text;
  for (const TokenId id : ids) text << id << ' ';
  return text.str();
}

/// Rows that the tokenizer gets right; the others are described in `faults`.
std::size_t count_equal(const Tokenizer& tokenizer, std::span<const GoldenRow> rows, std::ostream& faults) {
  std::size_t equal = 0;
  for (const GoldenRow& row : rows) {
    const auto ids = tokenizer.encode(row.text, {.parse_special = row.parse_special});
    if (ids == row.ids) {
      ++equal;
    } else {
      faults << "text " << nlohmann::json(row.text) << " parse_special " << row.parse_special << "\n  wanted " << show(row.ids)
             << "\n  found  " << show(ids) << '\n';
    }
  }
  return equal;
}

void check_golden(std::string_view model, std::string_view file_name) {
  const auto rows = read_rows(file_name);
  const auto tokenizer = kvpage_test::model_tokenizer(model);
  std::ostringstream faults;
  const std::size_t equal = count_equal(tokenizer, rows, faults);
  std::cout << file_name << ": " << equal << " rows equal / " << rows.size() << " rows in the file\n";
  INFO(faults.str());
  CHECK(rows.size() >= 258);
  CHECK(equal == rows.size());
}

}  // namespace

TEST_CASE("tokenizer.golden.smollm2_ids_equal", "[tokenizer]") { check_golden("smollm2", "tokenizer_smollm2.jsonl"); }
TEST_CASE("tokenizer.golden.qwen_ids_equal", "[tokenizer]") { check_golden("qwen0.5b", "tokenizer_qwen2.5-coder.jsonl"); }
TEST_CASE("tokenizer.golden.gemma_ids_equal", "[tokenizer]") { check_golden("gemma3", "tokenizer_gemma3.jsonl"); }

TEST_CASE("tokenizer.golden.comparator_rejects_one_altered_id", "[tokenizer]") {
  auto rows = read_rows("tokenizer_smollm2.jsonl");
  const auto tokenizer = kvpage_test::model_tokenizer("smollm2");
  std::ostringstream faults;
  const std::size_t altered = rows.size() / 2;
  REQUIRE_FALSE(rows[altered].ids.empty());
  rows[altered].ids.back() ^= 1;
  CHECK(count_equal(tokenizer, rows, faults) == rows.size() - 1);
  CHECK(faults.str().find("wanted " + show(rows[altered].ids)) != std::string::npos);
}

TEST_CASE("tokenizer.golden.decode_gives_the_text_back", "[tokenizer]") {
  const std::pair<std::string_view, std::string_view> files[] = {
      {"smollm2", "tokenizer_smollm2.jsonl"}, {"qwen0.5b", "tokenizer_qwen2.5-coder.jsonl"}, {"gemma3", "tokenizer_gemma3.jsonl"}};
  for (const auto& [model, file_name] : files) {
    const auto tokenizer = kvpage_test::model_tokenizer(model);
    for (const GoldenRow& row : read_rows(file_name)) {
      // An SPM vocabulary writes spaces as U+2581, so the two cannot be told apart; others have their texts in NFC.
      kvpage::engine::NfcScratch scratch;
      std::string wanted{tokenizer.composes() ? kvpage::engine::to_nfc(row.text, scratch) : row.text};
      for (auto at = wanted.find("\u2581"); model == "gemma3" && at != wanted.npos; at = wanted.find("\u2581")) wanted.replace(at, 3, " ");
      INFO(model << " " << nlohmann::json(row.text));
      CHECK(tokenizer.decode(row.ids, {.show_special = true}) == wanted);
    }
  }
}
