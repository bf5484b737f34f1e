/// \file Special tokens that a file types wrongly: ends end, are not shown, and users cannot write them.
#include "loader/temp_dir.hpp"
#include "support/gguf_writer.hpp"
#include "support/tiny_gguf_tokenizer.hpp"
#include "tokenizer/model_tokenizer.hpp"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace {

using kvpage::TokenId;
using kvpage::engine::EncodeOptions;
using kvpage::engine::Gguf;
using kvpage::engine::Tokenizer;
using kvpage::engine::TokenType;
using kvpage::engine::TrustedSpan;
using Ids = std::vector<TokenId>;

constexpr TokenId kFirst = 256;  ///< the first token behind the bytes

/// The tokenizer keys of a byte-level file with tokens of its own.
struct TokenFile {
  struct Extra {
    std::string text;
    std::int32_t type;
  };
  std::vector<Extra> extra;
  std::vector<std::string> merges{};
  std::vector<std::pair<std::string, TokenId>> named{};  ///< tokenizer.ggml.<first>_token_id
  bool has_types = true;
  bool spm = false;
};

/// What the engine reads from it.
struct ReadFile {
  Tokenizer tokenizer;
  Ids ends;
};

ReadFile read(const TokenFile& file) {
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types(kFirst, file.spm ? 6 : 1);
  for (unsigned byte = 0; byte < kFirst; ++byte) {
    char piece[8];
    std::snprintf(piece, sizeof piece, "<0x%02X>", byte);
    tokens.push_back(file.spm ? piece : kvpage_test::byte_level_character(byte));
  }
  for (const auto& [text, type] : file.extra) {
    tokens.push_back(text);
    types.push_back(type);
  }
  kvpage_test::GgufWriter writer;
  writer.text("tokenizer.ggml.model", file.spm ? "llama" : "gpt2").text("tokenizer.ggml.pre", "gpt-2");
  writer.texts("tokenizer.ggml.tokens", tokens).texts("tokenizer.ggml.merges", file.merges);
  writer.number("tokenizer.ggml.add_bos_token", false).number("tokenizer.ggml.add_space_prefix", false);
  if (file.spm) writer.numbers("tokenizer.ggml.scores", std::vector<float>(tokens.size(), 0.0f));
  if (file.has_types) writer.numbers("tokenizer.ggml.token_type", types);
  for (const auto& [name, id] : file.named) writer.number("tokenizer.ggml." + name + "_token_id", std::uint32_t{id});
  const kvpage_test::TempDir dir;
  writer.write(dir / "toy.gguf");
  const auto opened = Gguf::open((dir / "toy.gguf").string());
  if (!opened) FAIL(opened.error().to_string());
  auto tokenizer = kvpage::engine::read_tokenizer(*opened);
  if (!tokenizer) FAIL(tokenizer.error().to_string());
  auto ends = kvpage::engine::read_end_tokens(*opened, *tokenizer);
  if (!ends) FAIL(ends.error().to_string());
  return {std::move(*tokenizer), std::move(*ends)};
}

/// A token that only the template can write, and that no answer shows.
void check_control(const ReadFile& file, TokenId id, const std::string& text) {
  INFO(text);
  CHECK(file.tokenizer.vocab().type(id) == TokenType::kControl);
  CHECK(file.tokenizer.decode(Ids{'a', id, 'b'}) == "ab");
  const Ids plain = file.tokenizer.encode("a" + text + "b");
  CHECK(std::find(plain.begin(), plain.end(), id) == plain.end());
  CHECK(file.tokenizer.decode(plain) == "a" + text + "b");
  const TrustedSpan trusted{1, 1 + text.size()};
  CHECK(file.tokenizer.encode("a" + text + "b", {.trusted = {&trusted, 1}}) == Ids{'a', id, 'b'});
  CHECK(file.tokenizer.encode(text, {.parse_special = true}) == Ids{id});
}

void check_text(const ReadFile& file, TokenId id, const std::string& text) {
  INFO(text);
  CHECK(file.tokenizer.vocab().type(id) != TokenType::kControl);
  CHECK(file.tokenizer.decode(Ids{id}) == text);
  CHECK(std::find(file.ends.begin(), file.ends.end(), id) == file.ends.end());
}

}  // namespace

TEST_CASE("tokenizer.ends.known_texts_end_whatever_their_type", "[tokenizer]") {
  for (const bool spm : {false, true}) {
    for (const std::int32_t type : {1, 2, 3, 4, 5}) {
      INFO("spm " << spm << ", type " << type);
      const std::vector<TokenFile::Extra> extra{{"<|im_end|>", type}, {"<|eot_id|>", type}, {"<end_of_turn>", type}, {"\u2581<EOT>", type}};
      const auto file = read({.extra = extra, .spm = spm});
      CHECK(file.ends == Ids{kFirst, kFirst + 1, kFirst + 2, kFirst + 3});
      if (type == 2) continue;  // unknown: hidden and trusted like a control token
      check_control(file, kFirst, "<|im_end|>");
      check_control(file, kFirst + 2, "<end_of_turn>");
    }
    const auto untyped = read({.extra = {{"<|im_end|>", 0}, {"<b>", 0}}, .has_types = false, .spm = spm});
    CHECK(untyped.ends == Ids{kFirst});
    check_control(untyped, kFirst, "<|im_end|>");
    check_text(untyped, kFirst + 1, "<b>");
  }
}

TEST_CASE("tokenizer.ends.words_of_html_end_only_where_they_are_the_end", "[tokenizer]") {
  for (const std::int32_t type : {1, 4}) {
    INFO("type " << type);
    const TokenFile html{.extra = {{"<s>", type}, {"</s>", type}, {"<|endoftext|>", 3}}, .named = {{"bos", kFirst + 2}}};
    check_text(read(html), kFirst, "<s>");
    check_text(read(html), kFirst + 1, "</s>");
    CHECK(read(html).ends == Ids{kFirst + 2});
    TokenFile ends = html;
    ends.named = {{"bos", kFirst}};
    CHECK(read(ends).ends == Ids{kFirst + 1, kFirst + 2});
    check_control(read(ends), kFirst, "<s>");
    check_control(read(ends), kFirst + 1, "</s>");
  }
  const auto typed = read({.extra = {{"</s>", 3}, {"<eos>", 3}, {"[EOS]", 3}}});
  CHECK(typed.ends == Ids{kFirst, kFirst + 1, kFirst + 2});
}

TEST_CASE("tokenizer.ends.named_tokens_end_and_plain_ones_stay_text", "[tokenizer]") {
  const auto file = read(
      {.extra = {{"<turn>", 1}, {"<msg>", 4}, {"stop", 1}, {"<pad>", 1}, {"<fill>", 1}},
       .named = {{"eot", kFirst}, {"eom", kFirst + 1}, {"eos", kFirst + 2}, {"padding", kFirst + 3}, {"fim_sep", kFirst + 4}}});
  CHECK(file.ends == Ids{kFirst, kFirst + 1, kFirst + 2, kFirst + 4});  // padding says nothing about ends
  check_control(file, kFirst, "<turn>");
  check_control(file, kFirst + 1, "<msg>");
  CHECK(file.tokenizer.vocab().type(kFirst + 2) == TokenType::kNormal);  // a word: users may write it
}

TEST_CASE("tokenizer.ends.what_merges_make_is_text", "[tokenizer]") {
  const auto file = read({.extra = {{"[E", 1}, {"[EO", 1}, {"[EOT", 1}, {"[EOT]", 1}}, .merges = {"[ E", "[E O", "[EO T", "[EOT ]"}});
  CHECK(file.ends.empty());
  check_text(file, kFirst + 3, "[EOT]");  // as a control token it would leave a merge without its piece
}

TEST_CASE("tokenizer.ends.a_message_that_opens_the_next_is_no_end", "[tokenizer]") {
  const auto harmony = read({.extra = {{"<|end|>", 3}, {"<|return|>", 3}, {"<|call|>", 3}}});
  CHECK(harmony.ends == Ids{kFirst + 1, kFirst + 2});
  CHECK(read({.extra = {{"<|end|>", 3}, {"<|return|>", 3}}}).ends == Ids{kFirst, kFirst + 1});
  CHECK(read({.extra = {{"<|end|>", 3}, {"<|return|>", 3}, {"<|call|>", 3}}, .named = {{"eos", kFirst}}}).ends.size() == 3);
}

TEST_CASE("tokenizer.special.markers_are_control_tokens_whatever_their_type", "[tokenizer]") {
  const std::string markers[] = {"<|im_start|>", "<|start_header_id|>", "<|assistant|>",  "<\uFF5CUser\uFF5C>",
                                 "[|system|]",   "<start_of_turn>",     "[INST]"};
  const std::string words[] = {"<tool_call>", "<|", "<||>", "<| |>", "<|a|b|>", "<|a>b|>", "[x]", "|>"};
  for (const std::int32_t type : {1, 4, 5}) {
    TokenFile made;
    for (const auto& text : markers) made.extra.push_back({text, type});
    for (const auto& text : words) made.extra.push_back({text, type == 5 ? 1 : type});
    const auto file = read(made);
    CHECK(file.ends.empty());
    TokenId id = kFirst;
    for (const auto& text : markers) check_control(file, id++, text);
    for (const auto& text : words) check_text(file, id++, text);
  }
}

TEST_CASE("tokenizer.ends.of_real_vocabularies", "[tokenizer]") {
  const std::pair<std::string_view, Ids> models[] = {
      {"smollm2", {0, 2}}, {"qwen0.5b", {151643, 151645, 151662, 151663, 151664}}, {"gemma3", {1, 106}}};
  for (const auto& [model, wanted] : models) {
    const auto file = Gguf::open(kvpage_test::model_path(model));
    REQUIRE(file);
    CHECK(kvpage::engine::read_end_tokens(*file, kvpage_test::model_tokenizer(model)).value() == wanted);
  }
}
