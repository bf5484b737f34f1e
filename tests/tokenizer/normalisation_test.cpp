/// \file Texts that a vocabulary changes before it cuts them, against the publishers' tokenizers; composition against theirs.
#include "tokenizer/model_tokenizer.hpp"
#include "tokenizer/random_text.hpp"
#include "tokenizer/toy_vocabulary.hpp"

#include "engine/text/utf8.hpp"
#include "engine/tokenizer/nfc.hpp"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace {

using kvpage::TokenId;
using kvpage::engine::NfcScratch;
using kvpage::engine::to_nfc;
using kvpage::engine::Tokenizer;

/// Made by tools/make_tokenizer_golden.py, which names the versions.
const nlohmann::json& golden() {
  static const nlohmann::json table = [] {
    std::ifstream file(kvpage_test::data_dir() / "golden" / "tokenizer_normalised.json");
    REQUIRE(file);
    return nlohmann::json::parse(file);
  }();
  return table;
}

void check_rows(const Tokenizer& tokenizer, const nlohmann::json& rows, std::size_t wanted_rows) {
  CHECK(rows.size() == wanted_rows);
  for (const auto& row : rows) {
    INFO(row.dump(-1, ' ', true));
    const auto text = row.at("text").get<std::string>();
    CHECK(tokenizer.encode(text, {.parse_special = row.at("parse_special")}) == row.at("ids").get<std::vector<TokenId>>());
  }
}

std::string nfc(std::string_view text) {
  NfcScratch scratch;
  return std::string(to_nfc(text, scratch));
}

/// The bytes that are in no character.
std::string invalid_bytes(std::string_view text) {
  std::string bytes;
  for (std::size_t at = 0; at < text.size();) {
    const auto c = kvpage::engine::decode_utf8(text, at);
    if (!c.valid()) bytes += text.substr(at, c.length);
    at += c.length;
  }
  return bytes;
}

std::string hex_fnv1a(std::string_view bytes) {
  std::uint64_t hash = 0xCBF2'9CE4'8422'2325u;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100'0000'01B3u;
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

/// The code point alone, among marks of other classes, between jamo and behind a syllable.
void append_composed_forms(std::string& out, std::uint32_t code_point, NfcScratch& scratch) {
  std::string c;
  kvpage::engine::append_utf8(c, code_point);
  const std::string forms = c + " a" + c + "\u0323\u0301 \u0345" + c + "\u0334 \u1112" + c + "\u11ab \uac00" + c;
  out += to_nfc(forms, scratch);
}

}  // namespace

TEST_CASE("tokenizer.nfc.every_code_point_composes_as_in_the_tokenizers_library", "[tokenizer]") {
  const auto& table = golden().at("composition");
  const auto block = table.at("block").get<std::uint32_t>();
  const auto& hashes = table.at("fnv1a");
  REQUIRE(hashes.size() * block == 0x110000);
  NfcScratch scratch;
  std::string composed;
  for (std::uint32_t begin = 0; begin < 0x110000; begin += block) {
    composed.clear();
    for (std::uint32_t c = begin; c < begin + block; ++c) {
      if (c < 0xD800 || c > 0xDFFF) append_composed_forms(composed, c, scratch);
    }
    if (hex_fnv1a(composed) == hashes[begin / block]) continue;
    INFO("code points from " << begin);
    CHECK(hex_fnv1a(composed) == hashes[begin / block]);
  }
}

TEST_CASE("tokenizer.nfc.pairs_order_and_hangul", "[tokenizer]") {
  CHECK(nfc("e\u0301") == "\u00e9");
  CHECK(nfc("Vie\u0302\u0323t Vie\u0323\u0302t") == "Vi\u1ec7t Vi\u1ec7t");
  CHECK(nfc("\u1112\u1161\u11ab\u1100\u1173\u11af") == "\ud55c\uae00");
  CHECK(nfc("\uac00\u11a7") == "\uac00\u11a7");  // one before the finals
  CHECK(nfc("\uac01\u11a8") == "\uac01\u11a8");  // has a final already
  CHECK(nfc("\u1112\u1176") == "\u1112\u1176");  // one behind the vowels
  CHECK(nfc("a\u0301\u0301") == "\u00e1\u0301");
  CHECK(nfc("a\u0316\u0301") == "\u00e1\u0316");
  CHECK(nfc("\u0301\u0316a") == "\u0316\u0301a");
  CHECK(nfc("\u0958 \u2126 \uf900 \u0344") == "\u0915\u093c \u03a9 \u8c48 \u0308\u0301");
  CHECK(nfc("\u09c7\u09be\u09be") == "\u09cb\u09be");
  CHECK(nfc("a\u0898\u0316") == "a\u0898\u0316");  // U+0898 is of Unicode 14: it stands for itself, and nothing moves over it
  const std::string marks = "x\u0301" + std::string(1 << 16, 'a') + "\u0301";
  CHECK(nfc(marks) == "x\u0301" + std::string((1 << 16) - 1, 'a') + "\u00e1");
  std::string run = "a";
  for (int i = 0; i < 1 << 16; ++i) run += i % 2 == 0 ? "\u0315" : "\u0316";
  CHECK(nfc(run).find("\u0315\u0316") == std::string::npos);  // sorted, 65,536 of them
}

TEST_CASE("tokenizer.nfc.invalid_bytes_stay_and_nothing_composes_across_them", "[tokenizer]") {
  CHECK(nfc("e\xFF\u0301") == "e\xFF\u0301");
  CHECK(nfc("\xFF\u0301") == "\xFF\u0301");
  CHECK(nfc("e\u0301\xCC") == "\u00e9\xCC");
  CHECK(nfc("\r\xAE\u0301 \xC3\u0301 a\xBF\xBF\u0301") == "\r\xAE\u0301 \xC3\u0301 a\xBF\xBF\u0301");
  CHECK(nfc("\xE1\x84\u1161e\u0301\xED\xA0\x80") == "\xE1\x84\u1161\u00e9\xED\xA0\x80");
  kvpage_test::RandomText random{401};
  for (int round = 0; round < 20'000; ++round) {
    const std::string text = random.bytes(12);
    const std::string once = nfc(text);
    REQUIRE(nfc(once) == once);
    REQUIRE(invalid_bytes(once) == invalid_bytes(text));
  }
}

TEST_CASE("tokenizer.nfc.composed_text_is_not_copied", "[tokenizer]") {
  NfcScratch scratch;
  for (const std::string_view text : {"", "plain ASCII, longer than a word of the machine", "a\u0316 \xFF\xCC",
                                      "caf\u00e9 \u00fc \u0416\u4eca\u5929 \ud55c\uae00"}) {
    CHECK(to_nfc(text, scratch).data() == text.data());
    CHECK(scratch.chars.empty());
  }
}

TEST_CASE("tokenizer.golden.bytes_without_a_token_go_before_the_merges", "[tokenizer]") {
  check_rows(kvpage_test::model_tokenizer("smollm2"), golden().at("smollm2"), 40);
}

TEST_CASE("tokenizer.golden.texts_are_composed_between_special_tokens", "[tokenizer]") {
  const Tokenizer tokenizer = kvpage_test::model_tokenizer("qwen0.5b");
  const auto& rows = golden().at("qwen0.5b");
  check_rows(tokenizer, rows, 65);
  for (const auto& row : rows) {
    const auto text = row.at("text").get<std::string>();
    if (row.at("parse_special")) continue;  // composed between the special tokens
    INFO(row.dump(-1, ' ', true));
    CHECK(tokenizer.decode(tokenizer.encode(text)) == nfc(text));
  }
}

TEST_CASE("tokenizer.golden.u2581_is_a_space_to_user_defined_tokens", "[tokenizer]") {
  check_rows(kvpage_test::model_tokenizer("gemma3"), golden().at("gemma3"), 40);
}

TEST_CASE("tokenizer.golden.the_space_in_front_of_a_text_and_user_defined_tokens", "[tokenizer]") {
  const auto& table = golden().at("small_spm").at("vocabulary");
  kvpage_test::ToyVocabulary vocabulary;
  vocabulary.data.kind = kvpage::engine::TokenizerKind::kSpm;
  vocabulary.data.add_space_prefix = true;
  for (std::size_t i = 0; i < table.at("tokens").size(); ++i) {
    const auto type = static_cast<kvpage::engine::TokenType>(table.at("types")[i].get<int>());
    vocabulary.add(table.at("tokens")[i], type, table.at("scores")[i]);
  }
  vocabulary.data.unk = 0;
  const Tokenizer tokenizer = vocabulary.make();
  const auto& rows = golden().at("small_spm").at("rows");
  check_rows(tokenizer, rows, 60);
  for (const auto& row : rows) {
    std::string text = row.at("text");
    for (auto at = text.find("\u2581"); at != text.npos; at = text.find("\u2581")) text.replace(at, 3, " ");
    INFO(row.dump(-1, ' ', true));
    CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
  }
}
