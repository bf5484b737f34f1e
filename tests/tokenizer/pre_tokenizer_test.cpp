/// \file The scanners against the published patterns, and the class of every code point, with PCRE2 as the judge.
#include "engine/text/utf8.hpp"
#include "engine/tokenizer/pre_tokenizer.hpp"
#include "engine/tokenizer/unicode_class.hpp"
#include "support/environment.hpp"
#include "tokenizer/pcre2_pattern.hpp"
#include "tokenizer/random_text.hpp"

#include <algorithm>
#include <iostream>

namespace {

using kvpage::engine::CharClass;
using kvpage::engine::PreTokenizer;
using kvpage_test::Pcre2Pattern;

/// White_Space, written out: the \s of PCRE2 also has U+180E, which is none since Unicode 6.3.
const std::string kSpaces = "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";

const std::string kSpaceEnd = "[" + kSpaces + "]+(?![^" + kSpaces + "])|[" + kSpaces + "]+";
const std::string kGpt2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" + kSpaces + "\\p{L}\\p{N}]+|" + kSpaceEnd;

std::string joining_pattern(const std::string& digits) {
  return "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" + digits + "| ?[^" + kSpaces +
         "\\p{L}\\p{N}]+[\\r\\n]*|[" + kSpaces + "]*[\\r\\n]+|" + kSpaceEnd;
}

/// Ends of the words of `text`, as the pattern has them.
class PatternSplitter {
 public:
  explicit PatternSplitter(PreTokenizer kind)
      : digits_first_(kind == PreTokenizer::kSmol),
        digit_("\\p{N}"),
        words_(kind == PreTokenizer::kDigitTriples   ? joining_pattern("\\p{N}{1,3}")
               : kind == PreTokenizer::kSingleDigits ? joining_pattern("\\p{N}")
                                                     : kGpt2) {}

  std::vector<std::size_t> word_ends(std::string_view text) const {
    std::vector<std::size_t> ends;
    std::size_t begin = 0;
    const auto split = [&](std::size_t end) {
      for (const auto& match : words_.find_all(text.substr(begin, end - begin))) ends.push_back(begin + match.second);
    };
    if (digits_first_) {
      for (const auto& digit : digit_.find_all(text)) {
        split(digit.first);
        ends.push_back(begin = digit.second);
      }
    }
    split(text.size());
    return ends;
  }

 private:
  bool digits_first_;
  Pcre2Pattern digit_;
  Pcre2Pattern words_;
};

std::vector<std::size_t> scanned_ends(PreTokenizer kind, std::string_view text) {
  std::vector<std::size_t> ends;
  for (std::size_t at = 0; at < text.size();) ends.push_back(at = kvpage::engine::word_end(kind, text, at));
  return ends;
}

/// Letters and numbers that Unicode 15.0 added: the only code points on which Unicode 14 may disagree.
constexpr std::pair<std::uint32_t, std::uint32_t> kNewIn15[] = {
    {0x1123F, 0x11240}, {0x11F02, 0x11F02}, {0x11F04, 0x11F10}, {0x11F12, 0x11F33}, {0x11F50, 0x11F59}, {0x1342F, 0x1342F},
    {0x13441, 0x13446}, {0x1B132, 0x1B132}, {0x1B155, 0x1B155}, {0x1D2C0, 0x1D2D3}, {0x1DF25, 0x1DF2A}, {0x1E030, 0x1E06D},
    {0x1E4D0, 0x1E4EB}, {0x1E4F0, 0x1E4F9}, {0x2B739, 0x2B739}, {0x31350, 0x323AF}};

bool new_in_15(std::uint32_t c) {
  return std::any_of(std::begin(kNewIn15), std::end(kNewIn15), [&](const auto& range) { return c >= range.first && c <= range.second; });
}

bool has_new_code_point(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto c = kvpage::engine::decode_utf8(text, at);
    if (new_in_15(c.code_point)) return true;
    at += c.length;
  }
  return false;
}

void check_against_pattern(PreTokenizer kind, std::uint64_t seed) {
  const std::size_t num_texts = kvpage_test::night_run() ? 1'000'000 : 100'000;
  const PatternSplitter pattern{kind};
  kvpage_test::RandomText random{seed};
  std::size_t num_checked = 0;
  std::size_t num_words = 0;
  for (std::size_t i = 0; i < num_texts; ++i) {
    const std::string text = random.text(24);
    if (has_new_code_point(text)) continue;
    const auto wanted = pattern.word_ends(text);
    const auto found = scanned_ends(kind, text);
    ++num_checked;
    num_words += wanted.size();
    if (found == wanted) continue;
    INFO("seed " << seed << ", text " << i << ": " << Catch::StringMaker<std::string>::convert(text));
    REQUIRE(found == wanted);
  }
  std::cout << num_checked << " texts, " << num_words << " words, seed " << seed << '\n';
  CHECK(num_checked >= num_texts * 9 / 10);
  CHECK(num_words > num_checked * 5);
}

}  // namespace

TEST_CASE("tokenizer.words.gpt2_equals_its_pattern", "[tokenizer]") { check_against_pattern(PreTokenizer::kGpt2, 101); }
TEST_CASE("tokenizer.words.smol_equals_its_pattern", "[tokenizer]") { check_against_pattern(PreTokenizer::kSmol, 102); }
TEST_CASE("tokenizer.words.digit_triples_equal_their_pattern", "[tokenizer]") { check_against_pattern(PreTokenizer::kDigitTriples, 103); }
TEST_CASE("tokenizer.words.single_digits_equal_their_pattern", "[tokenizer]") { check_against_pattern(PreTokenizer::kSingleDigits, 104); }

TEST_CASE("tokenizer.words.known_texts", "[tokenizer]") {
  const auto words = [](PreTokenizer kind, std::string_view text) {
    std::string joined;
    std::size_t begin = 0;
    for (const std::size_t end : scanned_ends(kind, text)) {
      joined += "[" + std::string(text.substr(begin, end - begin)) + "]";
      begin = end;
    }
    return joined;
  };
  CHECK(words(PreTokenizer::kGpt2, "I'LL pay 1234  dollars") == "[I]['][LL][ pay][ 1234][ ][ dollars]");
  CHECK(words(PreTokenizer::kSmol, "pay 12  3") == "[pay][ ][1][2][  ][3]");
  CHECK(words(PreTokenizer::kDigitTriples, "I'LL (pay) 12345\n\n  x") == "[I]['LL][ (][pay][)][ ][123][45][\n\n][ ][ x]");
  CHECK(words(PreTokenizer::kSingleDigits, "a\t12 \n") == "[a][\t][1][2][ \n]");
}

TEST_CASE("tokenizer.words.invalid_utf8_is_cut_into_all_its_bytes", "[tokenizer]") {
  kvpage_test::RandomText random{105};
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = random.bytes(12);
    for (const auto kind : {PreTokenizer::kGpt2, PreTokenizer::kSmol, PreTokenizer::kDigitTriples, PreTokenizer::kSingleDigits}) {
      const auto ends = scanned_ends(kind, text);
      REQUIRE((text.empty() ? ends.empty() : ends.back() == text.size()));
      REQUIRE(std::is_sorted(ends.begin(), ends.end(), std::less_equal<>{}));
    }
  }
}

TEST_CASE("tokenizer.unicode.every_code_point_has_the_class_that_pcre2_gives_it", "[tokenizer]") {
  std::string all;
  std::vector<std::uint32_t> code_point_at;  // by byte offset
  for (std::uint32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    code_point_at.resize(all.size() + 1);
    code_point_at.back() = c;
    kvpage::engine::append_utf8(all, c);
  }
  std::vector<CharClass> wanted(0x110000, CharClass::kOther);
  const auto mark = [&](const std::string& pattern, CharClass char_class) {
    for (const auto& match : Pcre2Pattern{pattern}.find_all(all)) wanted[code_point_at[match.first]] = char_class;
  };
  mark("\\p{L}", CharClass::kLetter);
  mark("\\p{N}", CharClass::kNumber);
  mark("[" + kSpaces + "]", CharClass::kSpace);

  const double pcre2_version = std::stod(Pcre2Pattern::unicode_version());
  std::size_t num_new = 0;
  for (std::uint32_t c = 0; c <= 0x10FFFF; ++c) {
    const CharClass found = kvpage::engine::char_classes()[c];
    if (found == wanted[c]) continue;
    INFO("code point " << c << ", PCRE2 with Unicode " << pcre2_version);
    const bool newer_here = found != CharClass::kOther && new_in_15(c) && pcre2_version < 15;
    const bool newer_there = found == CharClass::kOther && pcre2_version > 15;
    REQUIRE((newer_here || newer_there));
    num_new += newer_here ? 1u : 0u;
  }
  if (pcre2_version < 15) CHECK(num_new == 4388);  // all of them
}
