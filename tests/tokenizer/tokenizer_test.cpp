/// \file Tokenizer on small vocabularies: special tokens, BOS, spaces, unknown bytes, broken files.
#include "engine/tokenizer/tokenizer.hpp"
#include "support/catch.hpp"
#include "tokenizer/toy_vocabulary.hpp"

#include <algorithm>

namespace {

using kvpage::TokenId;
using kvpage::engine::Tokenizer;
using kvpage::engine::TokenType;
using kvpage::engine::TrustedSpan;
using kvpage_test::ToyVocabulary;
using Ids = std::vector<TokenId>;

constexpr TokenId kBos = 256;  // the first token behind the bytes

ToyVocabulary with_bos(bool add_bos) {
  auto vocabulary = ToyVocabulary::bpe();
  vocabulary.data.bos = vocabulary.add("<s>", TokenType::kControl);
  vocabulary.data.add_bos = add_bos;
  return vocabulary;
}

std::size_t count_bos(const Ids& ids) { return static_cast<std::size_t>(std::count(ids.begin(), ids.end(), kBos)); }

}  // namespace

TEST_CASE("bug.B48.chat_has_exactly_one_bos", "[tokenizer]") {
  for (const bool add_bos : {false, true}) {
    const Tokenizer tokenizer = with_bos(add_bos).make();
    const std::string with_template_bos = "<s>user: hi";
    const TrustedSpan all{0, with_template_bos.size()};
    CHECK(count_bos(tokenizer.encode_chat(with_template_bos, {&all, 1})) == 1);

    const std::string without = "user: hi";
    const TrustedSpan rest{0, without.size()};
    CHECK(count_bos(tokenizer.encode_chat(without, {&rest, 1})) == (add_bos ? 1 : 0));
    CHECK(tokenizer.encode_chat("", {}) == (add_bos ? Ids{kBos} : Ids{}));
  }
  const Tokenizer no_bos = ToyVocabulary::bpe().make();
  const TrustedSpan all{0, 3};
  CHECK(no_bos.encode_chat("<s>", {&all, 1}) == Ids{'<', 's', '>'});
  CHECK_FALSE(no_bos.begins_with_two_bos(Ids{kBos, kBos}));
}

TEST_CASE("bug.B48.bos_written_by_a_user_stays_text", "[tokenizer]") {
  const Tokenizer tokenizer = with_bos(true).make();
  const std::string text = "<s>[<s>]<s>";  // template, [user], template
  const TrustedSpan trusted[] = {{0, 4}, {7, 11}};
  CHECK(tokenizer.encode_chat(text, trusted) == Ids{kBos, '[', '<', 's', '>', ']', kBos});
  // A token that only begins or only ends in what the template wrote is no token either.
  const TrustedSpan cut[] = {{0, 2}, {9, 11}};
  CHECK(count_bos(tokenizer.encode(text, {.trusted = cut})) == 0);
  CHECK(count_bos(tokenizer.encode(text)) == 0);
  CHECK(count_bos(tokenizer.encode(text, {.parse_special = true})) == 3);
}

TEST_CASE("bug.B48.raw_text_obeys_the_flag_and_a_double_is_noticed", "[tokenizer]") {
  for (const bool add_bos : {false, true}) {
    const Tokenizer tokenizer = with_bos(add_bos).make();
    const Ids plain = tokenizer.encode("a", {.add_special = true, .parse_special = true});
    CHECK(plain == (add_bos ? Ids{kBos, 'a'} : Ids{'a'}));
    CHECK_FALSE(tokenizer.begins_with_two_bos(plain));
    const Ids starts_with_bos = tokenizer.encode("<s>a", {.add_special = true, .parse_special = true});
    CHECK(tokenizer.begins_with_two_bos(starts_with_bos) == add_bos);
    CHECK(count_bos(starts_with_bos) == (add_bos ? 2 : 1));
    CHECK(count_bos(tokenizer.encode("a", {.parse_special = true})) == 0);
  }
}

TEST_CASE("tokenizer.special.leftmost_then_longest", "[tokenizer]") {
  auto vocabulary = ToyVocabulary::bpe();
  const TokenId one = vocabulary.add("<a", TokenType::kUserDefined);
  const TokenId two = vocabulary.add("<a>", TokenType::kUserDefined);
  const TokenId three = vocabulary.add("><b>", TokenType::kUserDefined);
  const TokenId control = vocabulary.add("<a><b>", TokenType::kControl);
  const TokenId unknown = vocabulary.add("<unk>", TokenType::kUnknown);
  vocabulary.add("never", TokenType::kUnused);
  vocabulary.data.eos = control;
  vocabulary.data.add_eos = true;
  const Tokenizer tokenizer = vocabulary.make();
  CHECK(tokenizer.encode("<a") == Ids{one});
  CHECK(tokenizer.encode("<a><a><b>x") == Ids{two, two, '<', 'b', '>', 'x'});
  CHECK(tokenizer.encode("a><b>") == Ids{'a', three});
  CHECK(tokenizer.encode("<a><b>", {.parse_special = true}) == Ids{control});
  CHECK(tokenizer.encode("<unk>") == Ids{'<', 'u', 'n', 'k', '>'});
  CHECK(tokenizer.encode("<unk>", {.parse_special = true}) == Ids{unknown});
  CHECK(tokenizer.encode("never", {.parse_special = true}) == Ids{'n', 'e', 'v', 'e', 'r'});
  CHECK(tokenizer.encode("x", {.add_special = true}) == Ids{'x', control});
}

TEST_CASE("tokenizer.bpe.ignore_merges_takes_whole_words_first", "[tokenizer]") {
  auto vocabulary = ToyVocabulary::bpe();
  const TokenId bc = vocabulary.add_merge("b", "c");
  const TokenId abc = vocabulary.add("abc");  // no merges lead here
  const Tokenizer merging = vocabulary.make();
  CHECK(merging.encode("abc") == Ids{'a', bc});
  CHECK(merging.encode("abc bc") == Ids{'a', bc, ' ', bc});  // what the first call learned about "abc" changes nothing
  vocabulary.data.ignore_merges = true;
  CHECK(vocabulary.make().encode("abc abcd") == Ids{abc, ' ', 'a', bc, 'd'});
}

TEST_CASE("tokenizer.bpe.bytes_without_a_token_are_counted", "[tokenizer]") {
  ToyVocabulary vocabulary;
  const TokenId a = vocabulary.add("a");
  const Tokenizer tokenizer = vocabulary.make();
  kvpage::engine::EncodeScratch scratch;
  Ids ids;
  tokenizer.encode("abac\xFF", {}, scratch, ids);
  CHECK(ids == Ids{a, a});
  CHECK(scratch.dropped_bytes == 3);
}

TEST_CASE("tokenizer.bpe.neighbours_of_a_byte_without_a_token_merge", "[tokenizer]") {
  ToyVocabulary vocabulary;
  const TokenId a = vocabulary.add("a");
  const TokenId aa = vocabulary.add_merge("a", "a");
  const Tokenizer tokenizer = vocabulary.make();
  CHECK(tokenizer.encode("abac\xFFxa") == Ids{aa, a});
  std::string run;
  for (int i = 0; i < 100; ++i) run += "ab";  // more symbols than a scan takes
  CHECK(tokenizer.encode(run) == Ids(50, aa));
}

TEST_CASE("tokenizer.bpe.composed_text_is_cut_and_merged", "[tokenizer]") {
  auto vocabulary = ToyVocabulary::bpe();
  vocabulary.data.composes = true;
  const TokenId control = vocabulary.add("<c>", TokenType::kControl);
  const Tokenizer tokenizer = vocabulary.make();
  CHECK(tokenizer.composes());
  CHECK(tokenizer.encode("e\u0301") == Ids{0xC3, 0xA9});
  CHECK(tokenizer.encode("e<c>\u0301", {.parse_special = true}) == Ids{'e', control, 0xCC, 0x81});
  // The template's last letter and the user's first mark are one character to the model.
  const TrustedSpan trusted{0, 4};
  CHECK(tokenizer.encode_chat("<c>e\u0301", {&trusted, 1}) == Ids{control, 0xC3, 0xA9});
  // '>' and U+0338 compose, but the token was found before.
  CHECK(tokenizer.encode("<c>\u0338", {.parse_special = true}) == Ids{control, 0xCC, 0xB8});
  vocabulary.data.composes = false;
  CHECK(vocabulary.make().encode("e\u0301") == Ids{'e', 0xCC, 0x81});
}

TEST_CASE("tokenizer.spm.scores_decide_and_the_leftmost_of_equals", "[tokenizer]") {
  auto vocabulary = ToyVocabulary::spm();
  const TokenId a = vocabulary.add("a", TokenType::kNormal, -9);
  const TokenId b = vocabulary.add("b", TokenType::kNormal, -9);
  const TokenId aa = vocabulary.add("aa", TokenType::kNormal, -2);
  const TokenId ab = vocabulary.add("ab", TokenType::kNormal, -1);
  const TokenId space_a = vocabulary.add("\u2581a", TokenType::kNormal, -3);
  const Tokenizer tokenizer = vocabulary.make();
  CHECK(tokenizer.encode("aaa") == Ids{aa, a});
  CHECK(tokenizer.encode("aab") == Ids{a, ab});
  CHECK(tokenizer.encode("b a") == Ids{b, space_a});
  CHECK(tokenizer.encode("b\u2581a") == Ids{b, space_a});
  CHECK(tokenizer.encode(" ab") == Ids{' ', ab});  // the byte token of a space: no piece is one
  CHECK(tokenizer.encode("a\u00e9\xFFz") == Ids{a, 0xC3, 0xA9, 0xFF, 'z'});
  CHECK(tokenizer.decode(tokenizer.encode("a\u00e9\xFFz b")) == "a\u00e9\xFFz b");
}

TEST_CASE("tokenizer.spm.pieces_with_a_space_inside_are_found", "[tokenizer]") {
  auto vocabulary = ToyVocabulary::spm();
  for (const char* piece : {"a", "b", "\u2581", "\u2581b", "\u2581\u2581"}) vocabulary.add(piece, TokenType::kNormal, -5);
  const TokenId across = vocabulary.add("a\u2581b", TokenType::kNormal, -1);
  const TokenId b = 257;
  const TokenId two_spaces = 260;
  const Tokenizer tokenizer = vocabulary.make();
  CHECK(tokenizer.encode("a b") == Ids{across});
  CHECK(tokenizer.encode("b a b") == Ids{b, 258, across});
  CHECK(tokenizer.encode("b   ") == Ids{b, two_spaces, 258});
}

TEST_CASE("tokenizer.spm.space_prefix_is_added_and_taken_away", "[tokenizer]") {
  auto vocabulary = ToyVocabulary::spm();
  const TokenId space = vocabulary.add("\u2581", TokenType::kNormal, -5);
  const TokenId a = vocabulary.add("a", TokenType::kNormal, -5);
  const TokenId space_a = vocabulary.add("\u2581a", TokenType::kNormal, -1);
  const TokenId turn = vocabulary.add("[T]", TokenType::kControl);
  vocabulary.data.add_space_prefix = true;
  const Tokenizer tokenizer = vocabulary.make();
  CHECK(tokenizer.encode("aa") == Ids{space_a, a});
  CHECK(tokenizer.encode(" a") == Ids{space, space_a});
  CHECK(tokenizer.encode("") == Ids{});
  CHECK(tokenizer.encode("a[T]a[T]", {.parse_special = true}) == Ids{space_a, turn, space_a, turn});
  for (const char* text : {"aa", " a", "a[T]a[T]", "[T] a", ""}) {
    CHECK(tokenizer.decode(tokenizer.encode(text, {.parse_special = true}), {.show_special = true}) == text);
  }
  CHECK(tokenizer.decode(Ids{space_a}, {.strip_space_prefix = false}) == " a");
}

TEST_CASE("tokenizer.spm.a_user_defined_token_is_text_to_the_space_in_front", "[tokenizer]") {
  auto vocabulary = ToyVocabulary::spm();
  const TokenId space = vocabulary.add("\u2581", TokenType::kNormal, -5);
  const TokenId a = vocabulary.add("a", TokenType::kNormal, -5);
  const TokenId space_a = vocabulary.add("\u2581a", TokenType::kNormal, -1);
  const TokenId mark = vocabulary.add("<X>", TokenType::kUserDefined);
  const TokenId turn = vocabulary.add("[T]", TokenType::kControl);
  const TokenId two = vocabulary.add("\u2581\u2581", TokenType::kUserDefined);
  vocabulary.data.add_space_prefix = true;
  const Tokenizer tokenizer = vocabulary.make();
  CHECK(tokenizer.encode("a<X>a") == Ids{space_a, mark, a});
  CHECK(tokenizer.encode("<X>a") == Ids{space, mark, a});
  CHECK(tokenizer.encode("<X><X> a") == Ids{space, mark, mark, space_a});
  CHECK(tokenizer.encode("[T]<X>a[T]a", {.parse_special = true}) == Ids{turn, space, mark, a, turn, space_a});
  CHECK(tokenizer.encode(" a") == Ids{two, a});  // the space in front and that of the text
  CHECK(tokenizer.encode("a\u2581 a") == Ids{space_a, two, a});
  CHECK(tokenizer.encode("a \u2581\u2581a") == Ids{space_a, two, space_a});
  for (const char* text : {"a<X>a", "<X>a", "<X><X> a", "[T]<X>a[T]a", " a", "  a", "a  a", "[T] a"}) {
    INFO(text);
    CHECK(tokenizer.decode(tokenizer.encode(text, {.parse_special = true}), {.show_special = true}) == text);
  }
}

TEST_CASE("tokenizer.spm.unknown_token_where_bytes_have_none", "[tokenizer]") {
  ToyVocabulary vocabulary;
  vocabulary.data.kind = kvpage::engine::TokenizerKind::kSpm;
  const TokenId unk = vocabulary.add("<unk>", TokenType::kUnknown);
  const TokenId a = vocabulary.add("a");
  vocabulary.data.unk = unk;
  const Tokenizer tokenizer = vocabulary.make();
  kvpage::engine::EncodeScratch scratch;
  Ids ids;
  tokenizer.encode("a\u00e9a", {}, scratch, ids);
  CHECK(ids == Ids{a, unk, a});
  CHECK(scratch.dropped_bytes == 2);
}
