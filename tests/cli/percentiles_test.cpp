/// \file Percentiles and generated requests: pure functions of the command line.
#include "support/catch.hpp"
#include "tools/kvpage/percentiles.hpp"
#include "tools/kvpage/request_mix.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace kvpage_test {
namespace {

using kvpage::cli::generate_mix;
using kvpage::cli::Percentiles;
using kvpage::cli::TimedRequest;

constexpr std::int64_t kVocab = 1000;

std::vector<TimedRequest> mix(std::string_view kind, std::int64_t count, double rate_per_s = 0, std::uint64_t seed = 1) {
  return generate_mix({.kind = std::string(kind), .count = count, .rate_per_s = rate_per_s, .seed = seed}, kVocab);
}

std::size_t common_start(const std::vector<kvpage::TokenId>& a, const std::vector<kvpage::TokenId>& b) {
  const auto end = a.begin() + std::min(std::ssize(a), std::ssize(b));
  return static_cast<std::size_t>(std::mismatch(a.begin(), end, b.begin()).first - a.begin());
}

}  // namespace

TEST_CASE("cli.percentiles.are_the_nearest_rank", "[cli]") {
  // The definition by counting, over samples with ties.
  for (std::size_t count = 1; count <= 120; ++count) {
    std::vector<double> values;
    for (std::size_t i = 0; i < count; ++i) values.push_back(static_cast<double>(i * 7919 % 101 / 3));
    std::sort(values.begin(), values.end());
    for (const double percent : {1.0, 50.0, 90.0, 99.0, 100.0}) {
      const double found = kvpage::cli::nearest_rank(values, percent);
      const auto not_above = [&](double v) { return std::count_if(values.begin(), values.end(), [&](double x) { return x <= v; }); };
      const double wanted = percent * static_cast<double>(count) / 100;
      INFO(count << " values, " << percent << " %");
      CHECK(std::binary_search(values.begin(), values.end(), found));
      CHECK(static_cast<double>(not_above(found)) >= wanted);
      const auto smaller = std::lower_bound(values.begin(), values.end(), found);
      if (smaller != values.begin()) CHECK(static_cast<double>(not_above(*(smaller - 1))) < wanted);
    }
  }
  const Percentiles p = Percentiles::of({10, 9, 8, 7, 6, 5, 4, 3, 2, 1}).value();
  CHECK(p.p50 == 5);
  CHECK(p.p90 == 9);
  CHECK(p.p99 == 10);
  CHECK(Percentiles::of({3})->p50 == 3);
  CHECK_FALSE(Percentiles::of({}));
}

TEST_CASE("cli.mix.lengths_are_log_uniform_within_their_bounds", "[cli]") {
  std::map<int, int> per_octave;
  std::int64_t shortest_answer = 1000, longest_answer = 0;
  for (const TimedRequest& r : mix("random", 2000)) {
    const auto tokens = std::ssize(r.request.prompt_ids);
    REQUIRE((tokens >= 16 && tokens <= 512));
    for (const auto id : r.request.prompt_ids) REQUIRE(id < kVocab);
    int octave = 0;
    while ((std::int64_t{32} << octave) <= tokens) ++octave;
    ++per_octave[std::min(octave, 4)];
    shortest_answer = std::min(shortest_answer, r.request.max_tokens);
    longest_answer = std::max(longest_answer, r.request.max_tokens);
    CHECK((r.request.ignore_eos && r.request.sampling.greedy() && r.arrival_ns == 0));
  }
  CHECK(shortest_answer == 8);
  CHECK((longest_answer > 240 && longest_answer <= 256));
  for (int octave = 0; octave < 5; ++octave) {
    INFO("from " << (16 << octave) << " tokens");
    CHECK((per_octave[octave] > 320 && per_octave[octave] < 480));  // 400 expected, 4.5 standard deviations
  }
}

TEST_CASE("cli.mix.depends_on_its_seed_alone", "[cli]") {
  for (const std::string_view kind : kvpage::cli::kMixKinds) {
    INFO(kind);
    const auto first = mix(kind, 12, 5), again = mix(kind, 12, 5), other = mix(kind, 12, 5, 2), more = mix(kind, 20, 5);
    std::set<std::string> names;
    for (std::size_t i = 0; i < first.size(); ++i) {
      CHECK(first[i].request.prompt_ids == again[i].request.prompt_ids);
      CHECK(first[i].request.prompt_ids == more[i].request.prompt_ids);
      CHECK(first[i].arrival_ns == again[i].arrival_ns);
      names.insert(first[i].request.name);
    }
    CHECK(names.size() == 12);
    CHECK(first[0].request.prompt_ids != other[0].request.prompt_ids);
  }
}

TEST_CASE("cli.mix.arrivals_are_poisson_at_the_rate", "[cli]") {
  const auto requests = mix("random", 4000, 50);
  CHECK(std::is_sorted(requests.begin(), requests.end(), [](const auto& a, const auto& b) { return a.arrival_ns < b.arrival_ns; }));
  const double mean_s = static_cast<double>(requests.back().arrival_ns) * 1e-9 / 4000;
  CHECK(mean_s == Approx(0.02).epsilon(0.08));  // 5 standard deviations
  std::int64_t long_gaps = 0;
  for (std::size_t i = 1; i < requests.size(); ++i) long_gaps += requests[i].arrival_ns - requests[i - 1].arrival_ns > 20'000'000 ? 1 : 0;
  CHECK(static_cast<double>(long_gaps) / 4000 == Approx(0.368).margin(0.04));  // e^-1 of exponential gaps are longer than their mean
}

TEST_CASE("cli.mix.chats_and_code_share_their_starts", "[cli]") {
  const auto chat = mix("chat", 40);
  for (const TimedRequest& r : chat) CHECK(common_start(chat[0].request.prompt_ids, r.request.prompt_ids) >= 96);
  std::size_t longest = 0;
  for (std::size_t i = 1; i < chat.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) longest = std::max(longest, common_start(chat[j].request.prompt_ids, chat[i].request.prompt_ids));
  }
  CHECK(longest > 120);  // a later turn of one talk
  const auto code = mix("code", 40);
  std::set<kvpage::TokenId> files;
  for (const TimedRequest& r : code) files.insert(r.request.prompt_ids.front());
  CHECK(files.size() == 4);
  for (const TimedRequest& r : mix("long", 5)) {
    CHECK((std::ssize(r.request.prompt_ids) >= 1024 && std::ssize(r.request.prompt_ids) <= 4096));
  }
}

}  // namespace kvpage_test
