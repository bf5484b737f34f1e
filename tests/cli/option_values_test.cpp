/// \file Every option of every verb, as --help lists them: a bad value exits with 2, names the option and the value, and opens no file.
#include "cli/program.hpp"
#include "support/catch.hpp"

#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace kvpage_test {
namespace {

using Words = std::vector<std::string>;

const std::string kMissing = "/nowhere/missing.gguf";

/// What each verb needs beside its options: complete, but with a file that is not there.
const std::map<std::string, Words> kNeeded{
    {"run", {"-m", kMissing, "-p", "x"}},         {"tokenize", {"-m", kMissing}},
    {"detokenize", {"-m", kMissing}},             {"score", {"-m", kMissing, "--input", "-"}},
    {"perplexity", {"-m", kMissing, "--file", "-"}}, {"bench", {"-m", kMissing}},
    {"plan", {kMissing}},                         {"inspect", {kMissing}},
    {"template", {"-m", kMissing, "--messages", kMissing}}, {"trace page", {kMissing, "-o", "/nowhere/page"}},
    {"trace export", {kMissing, "--perfetto", "/nowhere/json"}}, {"trace replay", {kMissing}},
    {"trace generate", {"scan", "-o", "/nowhere/trace"}}, {"trace simulate", {"--out", "/nowhere/run"}},
    {"trace shrink", {kMissing}}};

struct Option {
  std::string verb;
  std::string name;  ///< the long one
  std::string type;  ///< as --help shows it; empty = takes no value
};

Words words_of(const std::string& text) {
  std::istringstream stream(text);
  Words words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::string help_of(const std::string& verb) {
  Words arguments = words_of(verb);
  arguments.push_back("--help");
  const Outcome help = run_kvpage(arguments);
  REQUIRE(help.exit_code == 0);
  return help.out;
}

/// The verbs that a help text lists, those of `trace` with it in front.
Words verbs_in(const std::string& help, const std::string& before = "") {
  Words verbs;
  std::istringstream lines(help.substr(help.find("Subcommands:") + 13));
  for (std::string line; std::getline(lines, line) && line.starts_with("  ");) {
    const std::string verb = before + words_of(line).front();
    if (verb != "trace") verbs.push_back(verb);
    else for (const std::string& further : verbs_in(help_of(verb), "trace ")) verbs.push_back(further);
  }
  return verbs;
}

/// The options of a verb.
std::vector<Option> options_of(const std::string& verb) {
  static const std::regex kOption("^ +(?:-\\w,)?(--[\\w-]+)(?:,--[\\w-]+)*(?:\\{\\w+\\})?(?: (.*))?$");
  constexpr std::size_t kNameColumns = 30;  // what the option is called; behind them, or on the next line, what it does
  std::vector<std::string> lines;
  std::istringstream stream(help_of(verb));
  for (std::string line; std::getline(stream, line) && !line.starts_with("Example");) lines.push_back(line);
  lines.emplace_back();
  std::vector<Option> options;
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
    const bool alone = lines[i + 1].starts_with(std::string(kNameColumns, ' '));
    std::string name = alone ? lines[i] : lines[i].substr(0, kNameColumns);
    name.erase(name.find_last_not_of(' ') + 1);
    std::smatch found;
    if (std::regex_match(name, found, kOption) && found[1] != "--help") options.push_back({verb, found[1], found[2]});
  }
  return options;
}

/// Numbers that no integer option takes, whatever its range.
const Words kNoInteger{"", " 1", "1 ", "+1", "1e3", "0x10", "010", "1_000", "1,000", "1.0", "12a", "nan", "--1", "-0x1",
                       "18446744073709551616", "-9223372036854775809", "99999999999999999999999"};
const Words kNoReal{"", " 1", "1 ", "+1", "nan", "-nan", "inf", "-inf", "infinity", "0x1p3", "1e999", "1,5", "0_1", "1.5.2", "1e", "one"};
const Words kNoBytes{"", " 1", "1 ", "+1", "-1", "1e3", "1.5G", "64Q", "64 M", "64MM", "M", "0x10", "8E", "17179869184G",
                     "99999999999999999999"};

/// The numbers just outside of "[least, most]".
Words outside(const std::string& type) {
  static const std::regex kBounds("\\[(-?\\d+), (\\d+)\\](.*)");
  std::smatch found;
  if (!std::regex_search(type, found, kBounds)) return {"-1"};  // [0, 2^64)
  const std::int64_t least = std::stoll(found[1]), most = std::stoll(found[2]);
  Words numbers{std::to_string(most + 1), std::to_string(least - 1)};
  if (found[3].str().starts_with(" or 0") && least == 1) numbers.pop_back();
  return numbers;
}

Words joined(Words all, const Words& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// Values that an option of this type refuses; nothing for texts, which are all welcome.
Words bad_values(const std::string& type) {
  if (type.empty()) return {"maybe", "1x", "0x", "2"};
  if (type.starts_with("TEXT")) return {};
  if (type.starts_with("INT[")) return joined(joined(kNoInteger, outside(type)), {"1,", ",1", "1,,1", "1;2"});
  if (type.starts_with("INT in ")) return joined(kNoInteger, outside(type));
  if (type.starts_with("FLOAT in ")) return joined(kNoReal, {"1e15", "-1e15"});
  if (type.starts_with("BYTES in ")) return kNoBytes;
  REQUIRE(contains(type, "|"));  // else a type that this test does not know: an option that is read in a way of its own
  const std::string first = type.substr(0, type.find('|'));
  return {"", first + "x", " " + first, "ABC", first + ";"};
}

void check_refused(const Option& option, const std::string& value) {
  Words arguments = joined(words_of(option.verb), kNeeded.at(option.verb));
  if (value.empty()) arguments.insert(arguments.end(), {option.name, value});
  else arguments.push_back(option.name + "=" + value);
  const Outcome outcome = run_kvpage(arguments);
  INFO(option.verb << ' ' << arguments.back() << " (" << option.type << "): " << outcome.err);
  CHECK(outcome.exit_code == 2);
  CHECK(contains(outcome.err, option.name));
  const bool list = option.type.starts_with("INT[") || contains(option.type, "[,..]");
  if (!option.type.empty()) CHECK(contains(outcome.err, list ? "each element of" : "\"" + value + "\""));
  CHECK_FALSE(contains(outcome.err, "/nowhere/"));
  CHECK(outcome.out.empty());
}

}  // namespace

TEST_CASE("cli.options.a_bad_value_is_refused_before_any_file_is_opened", "[cli]") {
  std::set<std::string> seen;
  std::int64_t num_options = 0;
  for (const std::string& verb : verbs_in(help_of(""))) {
    INFO(verb);
    REQUIRE(kNeeded.contains(verb));  // a new verb says here what it needs
    for (const Option& option : options_of(verb)) {
      Words values = bad_values(option.type);
      // The same option of another verb is read by the same code: whether it is, two values show.
      if (!seen.insert(option.name + " " + option.type).second) values.resize(std::min<std::size_t>(values.size(), 2));
      for (const std::string& value : values) check_refused(option, value);
      ++num_options;
    }
  }
  CHECK(num_options > 100);
}

TEST_CASE("cli.options.what_is_no_bad_value_gets_as_far_as_the_file", "[cli]") {
  for (const auto& [verb, needed] : kNeeded) {
    if (verb == "trace generate" || verb == "trace simulate") continue;  // they read none
    const Outcome outcome = run_kvpage(joined(words_of(verb), needed), verb == "detokenize" ? "[]" : "");
    INFO(verb << ": " << outcome.err);
    CHECK(outcome.exit_code == 3);
    CHECK(contains(outcome.err, kMissing));
  }
  // The edges of some ranges, and all ways to write what is one number.
  const std::vector<Words> welcome{
      {"run", "--seed=18446744073709551615", "--top-k=-1", "--temperature=.5", "--top-p=1e-3", "--presence-penalty=-100"},
      {"run", "--ctx=2", "--logprobs=20", "--repetition-penalty=0.01"},
      {"run", "--stop=[x]", "--stop={}", "--logit-bias=0=-1.5", "--ctx=0", "--beam=1"},
      {"bench", "--mix=random", "--host-tier=64M", "--rate=1e6", "--max-seqs=8191", "--budget-tokens=8192"},
      {"bench", "--mix=chat", "--host-tier=1kib", "--slo-ttft-ms=0.5", "--count=1000000", "--rate=0"},
      {"plan", "--memory=4g", "--seqs=65536"},
      {"trace replay", "--pool-blocks=1,16777216", "--block-size=1024", "--policies=lru,arc"}};
  for (const Words& more : welcome) {
    Words arguments = joined(words_of(more.front()), kNeeded.at(more.front()));
    arguments.insert(arguments.end(), more.begin() + 1, more.end());
    const Outcome outcome = run_kvpage(arguments);
    INFO(more[1] << ": " << outcome.err);
    CHECK(outcome.exit_code == 3);
  }
}

TEST_CASE("cli.options.values_that_do_not_go_together_are_refused_before_any_file_is_opened", "[cli]") {
  const auto refused = [&](const Words& more, const Words& parts) {
    Words arguments = joined(words_of(more.front()), kNeeded.at(more.front()));
    arguments.insert(arguments.end(), more.begin() + 1, more.end());
    const Outcome outcome = run_kvpage(arguments);
    INFO(more[1] << ": " << outcome.err);
    CHECK(outcome.exit_code == 2);
    for (const std::string& part : parts) CHECK(contains(outcome.err, part));
    CHECK_FALSE(contains(outcome.err, "/nowhere/"));
  };
  refused({"run", "--ctx=1"}, {"--ctx", "[2, ", "\"1\""});
  refused({"run", "--stop", ""}, {"--stop", "1 to 1024 bytes"});
  refused({"run", "--stop=" + std::string(1025, 'x')}, {"--stop", "1 to 1024 bytes"});
  refused({"run", "--logit-bias=5=nan"}, {"--logit-bias", "5=nan", "ID=BIAS"});
  refused({"run", "--logit-bias=4294967295=1"}, {"--logit-bias", "4294967295"});
  refused({"run", "--beam=2", "--temperature=1"}, {"--beam", "--temperature"});
  refused({"run", "--beam=2", "--answers=3"}, {"--beam 2", "--answers 3"});
  refused({"run", "--min-tokens=9", "--max-tokens=3"}, {"--min-tokens 9", "--max-tokens 3"});
  refused({"run", "--raw", "--system=x"}, {"--raw", "--system"});
  refused({"bench", "--mix=random", "--max-seqs=32", "--budget-tokens=32"}, {"--max-seqs 32", "--budget-tokens 32", "33"});
  refused({"bench", "--mix=random", "--max-seqs=600"}, {"--max-seqs 600", "--budget-tokens 512"});
  refused({"bench", "--mix=random", "--rate=1e-300"}, {"--rate 1e-300", "--count 64"});
  refused({"trace replay", "--block-size=24"}, {"--block-size", "24", "power of two"});
  refused({"trace simulate", "--seed=18446744073709551615", "--count=2"}, {"--seed 18446744073709551615", "--count 2"});
}

}  // namespace kvpage_test
