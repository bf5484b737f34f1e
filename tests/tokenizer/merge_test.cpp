/// \file Merging: real vocabularies against the textbook algorithms, and how much work the longest words are.
#include "tokenizer/model_tokenizer.hpp"
#include "tokenizer/naive_encoder.hpp"
#include "tokenizer/toy_vocabulary.hpp"

#include <iostream>

namespace {

using kvpage::TokenId;
using kvpage::engine::PreTokenizer;
using kvpage::engine::Symbol;

/// Prose-like words, code and long single-class runs, next to what RandomText makes.
std::string random_plain_text(kvpage_test::RandomText& random) {
  static constexpr std::string_view kWords[] = {
      " the",      " quick",    "ness",   " antidisestablishment", " tokenizer", "ing",       " \u0434\u043e\u043c",
      "def f(x):", "return x;", "= 0x1F", "\u4eca\u5929\u6c14",    "</div>",     "supercali", " I'm"};
  std::string text;
  for (std::uint64_t parts = random.below(12); parts > 0; --parts) {
    const std::uint64_t kind = random.below(8);
    if (kind == 0) text += random.bytes(6);
    if (kind == 1) text += std::string(random.below(90), "a =-xe.9"[random.below(8)]);
    if (kind > 1) text += kWords[random.below(std::size(kWords))];
  }
  return text;
}

void check_bpe(std::string_view model, PreTokenizer kind, std::uint64_t seed) {
  const auto file = kvpage::engine::Gguf::open(kvpage_test::model_path(model));
  REQUIRE(file);
  const kvpage_test::NaiveEncoder naive{*file};
  const auto tokenizer = kvpage_test::model_tokenizer(model);
  kvpage_test::RandomText random{seed};
  kvpage::engine::NfcScratch scratch;
  std::size_t num_ids = 0;
  for (int round = 0; round < 3'000; ++round) {
    const std::string text = random_plain_text(random);
    const auto wanted = naive.encode_bpe(tokenizer.composes() ? kvpage::engine::to_nfc(text, scratch) : text, kind);
    num_ids += wanted.size();
    INFO(model << ", seed " << seed << ", round " << round);
    REQUIRE(tokenizer.encode(text) == wanted);
  }
  CHECK(num_ids > 50'000);
}

void check_work_is_linear(std::string_view model) {
  constexpr std::string_view kUnits[] = {"a", "ab", " ", "\n", "1", "=", "\u4e2d", "\U0001f642", "\x80", "\xE2\x82"};
  constexpr std::size_t kBytes = 1 << 20;
  constexpr std::int64_t kMaxStepsPerByte = 8;  // lookups, heap pushes and pops; each costs at most log(n)
  const auto tokenizer = kvpage_test::model_tokenizer(model);
  std::int64_t most = 0;
  for (const std::string_view unit : kUnits) {
    std::string text;
    while (text.size() < kBytes) text += unit;
    kvpage::engine::EncodeScratch scratch;
    std::vector<TokenId> ids;
    tokenizer.encode(text, {}, scratch, ids);
    INFO("unit " << Catch::StringMaker<std::string>::convert(std::string(unit)) << ", steps " << scratch.steps());
    CHECK(scratch.steps() <= kMaxStepsPerByte * static_cast<std::int64_t>(text.size()));
    CHECK((tokenizer.decode(ids) == text));  // in parentheses: the texts are too long to be shown
    CHECK(scratch.dropped_bytes == 0);
    most = std::max(most, scratch.steps());
  }
  std::cout << model << ": at most " << most << " steps for 1 MiB\n";
  CHECK(most > static_cast<std::int64_t>(kBytes));
}

}  // namespace

TEST_CASE("tokenizer.merge.smollm2_equals_textbook_bpe", "[tokenizer]") { check_bpe("smollm2", PreTokenizer::kSmol, 201); }
TEST_CASE("tokenizer.merge.qwen_equals_textbook_bpe", "[tokenizer]") { check_bpe("qwen0.5b", PreTokenizer::kSingleDigits, 202); }

TEST_CASE("tokenizer.merge.gemma_equals_textbook_spm", "[tokenizer]") {
  constexpr std::uint64_t kSeed = 203;
  const auto file = kvpage::engine::Gguf::open(kvpage_test::model_path("gemma3"));
  REQUIRE(file);
  const kvpage_test::NaiveEncoder naive{*file};
  const auto tokenizer = kvpage_test::model_tokenizer("gemma3");
  kvpage_test::RandomText random{kSeed};
  std::size_t num_checked = 0;
  for (int round = 0; round < 2'000; ++round) {
    const std::string text = random_plain_text(random);
    // The textbook knows no user-defined tokens: several spaces, tabs, newlines, tags.
    if (text.find_first_of("\t\n<") != text.npos || text.find("  ") != text.npos) continue;
    ++num_checked;
    INFO("seed " << kSeed << ", round " << round);
    REQUIRE(tokenizer.encode(text) == naive.encode_spm(text));
  }
  CHECK(num_checked > 300);
}

TEST_CASE("tokenizer.merge.heap_and_scan_agree", "[tokenizer]") {
  constexpr std::uint64_t kSeed = 204;
  kvpage_test::RandomText random{kSeed};
  for (int round = 0; round < 20'000; ++round) {
    // Ids are sums, so that any pair may merge; many pairs have the same priority.
    const std::uint64_t salt = random.below(1000);
    const auto lookup = [&](const Symbol& left, const Symbol& right) {
      const std::uint64_t pair = kvpage::engine::mix_bits(salt << 40 | std::uint64_t{left.id} << 20 | right.id);
      if (pair % 3 == 0) return kvpage::engine::PairMerge{};
      return kvpage::engine::PairMerge{static_cast<std::uint32_t>(pair >> 60), static_cast<TokenId>((left.id + right.id) % 7)};
    };
    std::vector<Symbol> scanned(1 + random.below(kvpage::engine::kScannedSymbols));
    for (std::uint32_t i = 0; i < scanned.size(); ++i) scanned[i] = {i, 1, static_cast<TokenId>(random.below(7))};
    std::vector<Symbol> heaped = scanned;
    kvpage::engine::MergeScratch scratch;
    kvpage::engine::merge_by_scanning(scanned, lookup, scratch);
    kvpage::engine::merge_by_heap(heaped, lookup, scratch);
    const auto same = [](const Symbol& a, const Symbol& b) { return a.begin == b.begin && a.length == b.length && a.id == b.id; };
    INFO("seed " << kSeed << ", round " << round);
    REQUIRE(std::equal(scanned.begin(), scanned.end(), heaped.begin(), heaped.end(), same));
  }
}

TEST_CASE("tokenizer.merge.work_of_a_megabyte_of_one_class_is_linear_smollm2", "[tokenizer]") { check_work_is_linear("smollm2"); }
TEST_CASE("tokenizer.merge.work_of_a_megabyte_of_one_class_is_linear_qwen", "[tokenizer]") { check_work_is_linear("qwen0.5b"); }
TEST_CASE("tokenizer.merge.work_of_a_megabyte_of_one_class_is_linear_gemma", "[tokenizer]") { check_work_is_linear("gemma3"); }
