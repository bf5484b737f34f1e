/// \file Characters that are split over tokens, in a stream and in whole texts.
#include "engine/tokenizer/stream_detokenizer.hpp"
#include "support/catch.hpp"
#include "tokenizer/model_tokenizer.hpp"
#include "tokenizer/random_text.hpp"
#include "tokenizer/toy_vocabulary.hpp"

#include <kvpage/base/error.hpp>

namespace {

using kvpage::TokenId;
using kvpage::engine::StreamDetokenizer;
using kvpage::engine::Tokenizer;
using kvpage::engine::TokenType;
using kvpage::engine::Utf8Char;
using kvpage::engine::Utf8Stream;

/// Every well-formed character, each prefix of one, and everything else as single bytes: the definition, not the decoder.
std::string repair_by_definition(std::string_view text) {
  const auto byte = [&](std::size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u; };
  const auto tail = [&](std::size_t at, unsigned lo = 0x80, unsigned hi = 0xBF) { return byte(at) >= lo && byte(at) <= hi; };
  std::string repaired;
  for (std::size_t at = 0; at < text.size();) {
    const unsigned lead = byte(at);
    std::size_t need = 1;
    std::size_t have = 1;
    if (lead >= 0xC2 && lead <= 0xDF) need = 2, have += tail(at + 1);
    if (lead >= 0xE0 && lead <= 0xEF) {
      need = 3;
      if (tail(at + 1, lead == 0xE0 ? 0xA0 : 0x80, lead == 0xED ? 0x9F : 0xBF)) have += 1 + tail(at + 2);
    }
    if (lead >= 0xF0 && lead <= 0xF4) {
      need = 4;
      if (tail(at + 1, lead == 0xF0 ? 0x90 : 0x80, lead == 0xF4 ? 0x8F : 0xBF)) have += tail(at + 2) ? 2 + tail(at + 3) : 1;
    }
    const bool whole = have == need && (lead < 0x80 || need > 1);
    repaired += whole ? std::string(text.substr(at, need)) : "\uFFFD";
    at += have;
  }
  return repaired;
}

std::string stream_all(const Tokenizer& tokenizer, std::span<const TokenId> ids, const kvpage::engine::DecodeOptions& options = {}) {
  StreamDetokenizer stream{tokenizer, options};
  std::string joined;
  for (const TokenId id : ids) {
    const std::string piece{stream.push(id)};
    REQUIRE(repair_by_definition(piece) == piece);  // whole characters only
    REQUIRE(stream.held_bytes() <= 3);
    joined += piece;
  }
  return joined += stream.finish();
}

}  // namespace

TEST_CASE("bug.B60.character_split_over_tokens", "[tokenizer]") {
  auto vocabulary = kvpage_test::ToyVocabulary::bpe();
  const std::vector<std::vector<std::string>> sequences = {
      {"\xC4", "\x8F"}, {"\xF0", "\x9F", "\x98\x80"}, {"\xF0\x9F\x98", "\x80"}, {"\xE5", "\xAE\xA2\xE5\x8D\x95", "\xE4\xBB\xB7"}};
  const Tokenizer tokenizer = vocabulary.make();
  for (const auto& sequence : sequences) {
    Utf8Stream stream;
    std::string joined;
    std::string all;
    for (const auto& bytes : sequence) {
      joined += stream.push(bytes);
      all += bytes;
    }
    CHECK(stream.finish().empty());
    CHECK(joined == all);
    CHECK(joined.find("\uFFFD") == joined.npos);
    CHECK(stream_all(tokenizer, tokenizer.encode(all)) == all);
  }
}

TEST_CASE("bug.B60.only_the_invalid_byte_is_replaced", "[tokenizer]") {
  Utf8Stream stream;
  CHECK(stream.push("a\x80") == "a\uFFFD");
  CHECK(stream.push("b\xE2\x82") == "b");
  CHECK(stream.held_bytes() == 2);
  CHECK(stream.push("c") == "\uFFFDc");
  CHECK(stream.push("\xF0\x9F\x98") == "");
  CHECK(stream.finish() == "\uFFFD");
  CHECK(stream.push("\xC0\xAF\xED\xA0\x80\xF5") == "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD");
  CHECK(stream.finish().empty());
}

TEST_CASE("tokenizer.utf8.stream_repairs_exactly_the_maximal_invalid_parts", "[tokenizer]") {
  constexpr unsigned char kBytes[] = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF,
                                      0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF};
  for (const auto a : kBytes) {
    for (const auto b : kBytes) {
      for (const auto c : kBytes) {
        for (const auto d : kBytes) {
          const std::string text{static_cast<char>(a), static_cast<char>(b), static_cast<char>(c), static_cast<char>(d)};
          Utf8Stream stream;
          std::string joined;
          for (const char byte : text) joined += stream.push({&byte, 1});
          joined += stream.finish();
          if (joined == repair_by_definition(text)) continue;
          REQUIRE(joined == repair_by_definition(text));
        }
      }
    }
  }
  for (std::uint32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    kvpage::engine::append_utf8(text, c);
    const Utf8Char decoded = kvpage::engine::decode_utf8(text, 0);
    if (!decoded.valid() || decoded.code_point != c || decoded.length != text.size()) FAIL("code point " << c);
  }
  SUCCEED("every code point decodes to itself");
}

TEST_CASE("bug.B60.pieces_joined_are_the_full_decode_of_real_vocabularies", "[tokenizer]") {
  for (const auto model : kvpage_test::kTokenizerModels) {
    const Tokenizer tokenizer = kvpage_test::model_tokenizer(model);
    constexpr std::uint64_t kSeed = 60;
    kvpage_test::RandomText random{kSeed};
    for (int round = 0; round < 2'000; ++round) {
      std::vector<TokenId> ids = tokenizer.encode(random.bytes(20));
      for (int i = 0; i < 5; ++i)
        ids.insert(ids.begin() + static_cast<std::ptrdiff_t>(random.below(ids.size() + 1)),
                   static_cast<TokenId>(random.below(tokenizer.vocab().size())));
      for (const bool show_special : {false, true}) {
        INFO(model << ", seed " << kSeed << ", round " << round);
        const kvpage::engine::DecodeOptions options{.show_special = show_special};
        REQUIRE(stream_all(tokenizer, ids, options) == repair_by_definition(tokenizer.decode(ids, options)));
      }
    }
  }
}

TEST_CASE("tokenizer.decode.special_tokens_are_hidden_or_shown", "[tokenizer]") {
  auto vocabulary = kvpage_test::ToyVocabulary::bpe();
  const TokenId end = vocabulary.add("<|end|>", TokenType::kControl);
  const TokenId call = vocabulary.add("<call>", TokenType::kUserDefined);
  const TokenId pad = vocabulary.add("[PAD]", TokenType::kUnused);
  const Tokenizer tokenizer = vocabulary.make();
  const std::vector<TokenId> ids{'a', call, end, pad, 'b'};
  CHECK(tokenizer.decode(ids) == "a<call>b");
  CHECK(tokenizer.decode(ids, {.show_special = true}) == "a<call><|end|>[PAD]b");
  CHECK(stream_all(tokenizer, ids) == "a<call>b");
  CHECK_THROWS_AS(tokenizer.decode(std::vector<TokenId>{pad + 1}), kvpage::ConfigError);
  StreamDetokenizer stream{tokenizer};
  CHECK_THROWS_AS(stream.push(kvpage::engine::kNoToken), kvpage::ConfigError);
}
