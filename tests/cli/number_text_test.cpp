/// \file Numbers and JSON as flags and files hold them: nothing is rounded, wrapped, cut off or taken for something else.
#include "engine/text/json_text.hpp"
#include "engine/text/number_text.hpp"
#include "support/catch.hpp"

#include <string>

namespace kvpage_test {

using namespace kvpage::engine;
using nlohmann::json;

TEST_CASE("cli.numbers.integers_are_exact", "[cli]") {
  CHECK(parse_integer<std::uint64_t>("18446744073709551615") == 18446744073709551615u);
  CHECK(parse_integer<std::int64_t>("-9223372036854775808") == std::numeric_limits<std::int64_t>::min());
  CHECK(parse_integer<std::int64_t>("0") == 0);
  CHECK(parse_integer<std::int64_t>("7", 1, 7) == 7);
  CHECK_FALSE(parse_integer<std::int64_t>("8", 1, 7));
  CHECK_FALSE(parse_integer<std::int64_t>("0", 1, 7));
  for (const char* bad : {"", "-", "18446744073709551616", "100000000000000000000000", "1e3", "0x10", "+1", " 1", "1 ", "1_000", "010",
                          "00", "-01", "1.0", "1a", "\xd9\xa1"}) {
    INFO(bad);
    CHECK_FALSE(parse_integer<std::uint64_t>(bad));
    CHECK_FALSE(parse_integer<std::int64_t>(bad));
  }
  CHECK_FALSE(parse_integer<std::int64_t>("9223372036854775808"));
  CHECK_FALSE(parse_integer<std::uint64_t>("-1"));
  CHECK_FALSE(parse_integer<std::int64_t>(std::string_view("1\0", 2)));
  CHECK_FALSE(parse_integer<std::uint32_t>("4294967296"));
}

TEST_CASE("cli.numbers.reals_are_finite", "[cli]") {
  CHECK(parse_real("0.1", 0, 1) == 0.1);
  CHECK(parse_real("-2.5e-1", -1, 1) == -0.25);
  CHECK(parse_real(".5", 0, 1) == 0.5);
  for (const char* bad : {"", "nan", "inf", "-inf", "infinity", "1e999", "+1", " 1", "1 ", "0x1", "1,5", "e5", "1e", "-", "."}) {
    INFO(bad);
    CHECK_FALSE(parse_real(bad, -1e308, 1e308));
  }
  CHECK_FALSE(parse_real(std::string_view("1\0", 2), 0, 2));
  CHECK_FALSE(parse_real("1.0000001", 0, 1));
}

TEST_CASE("cli.numbers.bytes_have_units_of_1024", "[cli]") {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  CHECK(parse_bytes("512", 0, kMost) == 512);
  CHECK(parse_bytes("512B", 0, kMost) == 512);
  for (const char* text : {"64M", "64m", "64MB", "64mib", "64MiB"}) CHECK(parse_bytes(text, 0, kMost) == std::int64_t{64} << 20);
  CHECK(parse_bytes("1K", 0, kMost) == 1024);
  CHECK(parse_bytes("4E", 0, kMost) == kMost);
  for (const char* bad : {"", "M", "8E", "9223372036854775807K", "1.5G", "1 M", "1MM", "1iB", "1e3", "-1", "-1K", "1-2"}) {
    INFO(bad);
    CHECK_FALSE(parse_bytes(bad, 0, kMost));
  }
}

TEST_CASE("cli.json.what_it_says_is_what_is_read", "[cli]") {
  const auto value = parse_json(R"({"a": [1, -2, 0.5, 18446744073709551615, "x", null, true, {}], "b": {"c": []}})");
  REQUIRE(value);
  CHECK(*value == json::parse(R"({"a": [1, -2, 0.5, 18446744073709551615, "x", null, true, {}], "b": {"c": []}})"));
  const auto large = parse_json("[18446744073709551616, -100000000000000000000000]");
  REQUIRE(large);
  CHECK_FALSE((*large)[0].is_number());
  CHECK(shown((*large)[0]) == "18446744073709551616");
  CHECK(shown((*large)[1]) == "-100000000000000000000000");
  CHECK(json_integer(json(5), 0, 5) == 5);
  for (const json& bad : {json(6), json(-1), json(1.0), json("1"), json(nullptr), json(18446744073709551615u)}) {
    CHECK_FALSE(json_integer(bad, 0, 5));
  }
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  REQUIRE(parse_json(deep));
  CHECK(shown(*parse_json(deep)) == "an array of 1");
}

TEST_CASE("cli.json.faults_have_their_place", "[cli]") {
  const auto fault = [](std::string_view text) { return parse_json(text) ? std::string() : parse_json(text).error().what; };
  CHECK(fault("{\"a\": \"x\xff\"}") == "byte 9 (0xff) is not UTF-8");
  CHECK(fault("{\"seed\": 1, \"b\": {\"seed\": 2}, \"seed\": 3}") == "the key \"seed\" is there twice");
  CHECK(fault("[1, 2").starts_with("parse error at byte 6: "));
  CHECK(fault("[1] 2").starts_with("parse error at byte 5: "));
  CHECK(fault("[01]").starts_with("parse error at byte 3: "));
  for (const char* bad : {"", "[NaN]", "[Infinity]", "[+1]", "[0x10]", "[1_000]", "[.5]", "[1e999]", "[1,]", "{'a': 1}"}) {
    INFO(bad);
    CHECK_FALSE(fault(bad).empty());
  }
  CHECK(fault(std::string_view("[1]\0, 2", 7)) == "byte 4 (0x00) is no JSON");
}

}  // namespace kvpage_test
