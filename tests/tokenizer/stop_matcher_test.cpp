/// \file StopMatcher: the cases of public bug reports, and a naive search as its judge.
#include "engine/tokenizer/stop_matcher.hpp"
#include "support/catch.hpp"

#include <kvpage/base/error.hpp>

#include <algorithm>
#include <random>

namespace {

using kvpage::engine::StopMatcher;

struct Outcome {
  std::string shown;
  std::string flushed;
  std::int32_t stop = -1;
};

Outcome feed(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopMatcher matcher{stops};
  Outcome outcome;
  for (const auto& piece : pieces) outcome.shown += matcher.push(piece);
  outcome.stop = matcher.stop_index();
  outcome.flushed = matcher.finish();
  return outcome;
}

/// The stop that is complete first, of several that end together the longest.
Outcome search(const std::vector<std::string>& stops, const std::string& text) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    Outcome outcome;
    std::size_t length = 0;
    for (std::size_t i = 0; i < stops.size(); ++i) {
      if (stops[i].size() <= length || !std::string_view(text).substr(0, end).ends_with(stops[i])) continue;
      length = stops[i].size();
      outcome = {text.substr(0, end - length), "", static_cast<std::int32_t>(i)};
    }
    if (length > 0) return outcome;
  }
  return {text, "", -1};
}

/// Bytes at the end of `text` that are a proper prefix of a stop.
std::size_t longest_open_prefix(const std::vector<std::string>& stops, std::string_view text) {
  std::size_t longest = 0;
  for (const std::string& stop : stops) {
    for (std::size_t length = 1; length < stop.size(); ++length) {
      if (text.ends_with(std::string_view(stop).substr(0, length))) longest = std::max(longest, length);
    }
  }
  return longest;
}

}  // namespace

TEST_CASE("bug.B62.stop_string_across_tokens", "[tokenizer]") {
  const auto across = feed({"beta gamma"}, {"alpha", " be", "ta ga", "mma", " delta"});
  CHECK(across.shown == "alpha ");
  CHECK(across.stop == 0);
  CHECK(across.flushed.empty());

  const auto first = feed({"b,c", "c"}, {"a", "b,", "c", "d"});
  CHECK(first.shown == "a");
  CHECK(first.stop == 0);
  CHECK(feed({"c", "b,c"}, {"xc"}).shown == "x");

  const auto split_character = feed({"\u00e9"}, {"caf", "\xC3", "\xA9", "!"});
  CHECK(split_character.shown == "caf");
  CHECK(split_character.stop == 0);

  const auto never_completed = feed({"beta gamma"}, {"alpha ", "bet"});
  CHECK(never_completed.shown == "alpha ");
  CHECK(never_completed.flushed == "bet");
  CHECK(never_completed.stop == -1);
}

TEST_CASE("bug.B62.any_number_of_stops_but_no_empty_one", "[tokenizer]") {
  CHECK(feed({}, {"any", "thing"}).shown == "anything");
  CHECK(feed({"1", "2", "3", "4", "5"}, {"six, 5, 4"}).stop == 4);
  CHECK_THROWS_AS(StopMatcher(std::vector<std::string>{"ok", ""}), kvpage::ConfigError);
}

TEST_CASE("bug.B62.earliest_complete_match_wins", "[tokenizer]") {
  CHECK(feed({"abcd", "bc"}, {"xabcd"}).shown == "xa");
  CHECK(feed({"bcd", "abcd"}, {"xabcd"}).shown == "x");
  CHECK(feed({"aab"}, {"aa", "aa", "b"}).shown == "aa");
}

TEST_CASE("bug.B62.nothing_is_shown_after_the_stop", "[tokenizer]") {
  StopMatcher matcher{std::vector<std::string>{"END"}};
  CHECK(matcher.push("one EN") == "one ");
  CHECK(matcher.held_bytes() == 2);
  CHECK(matcher.push("D two") == "");
  CHECK(matcher.stopped());
  CHECK(matcher.push("three") == "");
  CHECK(matcher.finish() == "");
}

TEST_CASE("tokenizer.stop_matcher.equals_a_naive_search_for_any_cut", "[tokenizer]") {
  constexpr std::uint64_t kSeed = 62;
  std::mt19937_64 random{kSeed};
  const auto word = [&](std::size_t least, std::size_t most) {
    std::string text(least + random() % (most - least + 1), 'a');
    for (char& c : text) c = static_cast<char>('a' + random() % 3);
    return text;
  };
  std::size_t num_stopped = 0;
  for (int round = 0; round < 30'000; ++round) {
    std::vector<std::string> stops(1 + random() % 5);
    for (auto& stop : stops) stop = word(1, 7);
    const std::string text = word(0, 40);
    const Outcome wanted = search(stops, text);
    INFO("seed " << kSeed << ", round " << round << ", text " << text);
    StopMatcher matcher{stops};
    std::string shown;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = 1 + random() % 6;
      shown += matcher.push(text.substr(at, length));
      at = std::min(at + length, text.size());
      if (!matcher.stopped()) REQUIRE(matcher.held_bytes() == longest_open_prefix(stops, std::string_view(text).substr(0, at)));
    }
    REQUIRE(matcher.stop_index() == wanted.stop);
    shown += matcher.finish();
    REQUIRE(shown == wanted.shown);
    num_stopped += wanted.stop >= 0 ? 1u : 0u;
  }
  CHECK(num_stopped > 5'000);
  CHECK(num_stopped < 29'500);
}
