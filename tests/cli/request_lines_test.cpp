/// \file Lines of bench --requests: every field, its range, and what is said about a bad one.
#include "cli/request_runs.hpp"
#include "engine/tiny_models.hpp"

namespace kvpage_test {

TEST_CASE("cli.requests.bad_lines_are_named", "[cli]") {
  const TinyFile tiny(plain_model());
  const std::string good = lines_of({request("a", some_ids(3), 2)});
  const auto refused = [&](const std::string& line, const std::string& why) {
    const Outcome outcome = run_requests(tiny.path(), good + "\n" + line + "\n");
    INFO(line << ": " << outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(contains(outcome.err, "-:3: "));
    CHECK(contains(outcome.err, why));
    CHECK(outcome.out.empty());
  };
  refused("{\"id\": \"a\", ", "parse error");
  refused("[1]", "object");
  refused("{\"prompt\": \"a\", \"max_tokens\": 1}", "id is missing");
  refused("{\"id\": \"a\", \"prompt\": \"a\"}", "max_tokens is missing");
  refused("{\"id\": \"a\", \"prompt\": \"a\", \"prompt_ids\": [1], \"max_tokens\": 1}", "exactly one of prompt and prompt_ids");
  refused("{\"id\": \"a\", \"max_tokens\": 1}", "exactly one of prompt and prompt_ids");
  refused("{\"id\": \"a\", \"prompt_ids\": [], \"max_tokens\": 1}", "no tokens");
  refused("{\"id\": \"b\", \"prompt_ids\": [272], \"max_tokens\": 1}", "[0, 272)");
  refused("{\"id\": [], \"prompt\": \"a\", \"max_tokens\": 1}", "id must be");
  refused("{\"id\": \"a\", \"prompt\": \"a\", \"max_token\": 1, \"max_tokens\": 1}", "unknown field \"max_token\"");
  refused("{\"id\": \"b\", \"prompt\": \"a\", \"max_tokens\": 1, \"seed\": 18446744073709551616}",
          "seed must be an integer in [0, 18446744073709551615], not 18446744073709551616");
  refused("{\"id\": \"b\", \"prompt\": \"a\", \"max_tokens\": 1, \"max_tokens\": 2}", "the key \"max_tokens\" is there twice");
  refused("{\"id\": \"a\", \"prompt\": \"a\", \"max_tokens\": 1}", "an earlier request has the id \"a\"");
  const Outcome numbers = run_requests(tiny.path(), "{\"id\": 1, \"prompt\": \"a\", \"max_tokens\": 1}\n"
                                                    "{\"id\": \"1\", \"prompt\": \"a\", \"max_tokens\": 1}\n");
  CHECK(numbers.exit_code == 2);
  CHECK(contains(numbers.err, "-:2: an earlier request has the id \"1\""));
  const Outcome missing = run_kvpage({"bench", "--model", tiny.path(), "--requests", "/nowhere/at all"});
  CHECK(missing.exit_code == 3);
}

TEST_CASE("cli.requests.every_field_has_a_range", "[cli]") {
  const TinyFile tiny(plain_model());
  struct Bad {
    const char *key, *value, *why;
  };
  constexpr Bad kBad[] = {{"max_tokens", "0", "max_tokens must be an integer in [1, 2147483648], not 0"},
                          {"max_tokens", "9223372036854775808", "max_tokens must be an integer"},
                          {"max_tokens", "1.5", "max_tokens must be an integer"},
                          {"min_tokens", "-1", "min_tokens must be an integer in [0, 2147483648]"},
                          {"n", "0", "n must be an integer in [1, 128]"},
                          {"best_of", "129", "best_of must be an integer in [1, 128]"},
                          {"beam", "\"2\"", "beam must be an integer in [1, 128]"},
                          {"temperature", "-0.5", "temperature must be a number in [0.0, 100.0]"},
                          {"temperature", "\"hot\"", "temperature must be a number in [0.0, 100.0], not \"hot\""},
                          {"top_k", "-2", "top_k must be an integer in [-1, 2147483648]"},
                          {"top_p", "1.5", "top_p must be a number in [0.0, 1.0]"},
                          {"min_p", "null", "min_p must be a number in [0.0, 1.0]"},
                          {"repetition_penalty", "0", "repetition_penalty must be a number in [0.01, 100.0]"},
                          {"presence_penalty", "1e9", "presence_penalty must be a number in [-100.0, 100.0]"},
                          {"frequency_penalty", "[]", "frequency_penalty must be a number in [-100.0, 100.0]"},
                          {"logit_bias", "3", "logit_bias must be an object"},
                          {"logit_bias", "{\"272\": 1}", "logit_bias must hold ids in [0, 272), not 272"},
                          {"logit_bias", "{\" 1\": 1}", "each id of logit_bias must be an integer in [0, 4294967295], not \" 1\""},
                          {"logit_bias", "{\"x\": 1}", "each id of logit_bias must be"},
                          {"logit_bias", "[[5, 101]]", "each bias of logit_bias must be a number in [-100.0, 100.0], not 101"},
                          {"logit_bias", "{\"271\": 1e9}", "each bias of logit_bias must be a number in [-100.0, 100.0], not 1000000000.0"},
                          {"logprobs", "21", "logprobs must be an integer in [0, 20]"},
                          {"stop", "\"\"", "stop must be a text or texts of 1 to 1024 bytes, not \"\""},
                          {"stop", "[\"a\", 1]", "stop must be a text or texts"},
                          {"stop_tokens", "[300]", "stop_tokens must hold ids in [0, 272), not 300"},
                          {"stop_tokens", "\"a\\u00e9\\u0007\"", "stop_tokens must be an array of token ids, not \"a\\u00e9\\u0007\""},
                          {"ignore_eos", "\"0123456789012345678901234567890123456789\"",
                           "ignore_eos must be true or false, not \"012345678901234567890123456789012345678..."},
                          {"ignore_eos", "1", "ignore_eos must be true or false"},
                          {"seed", "1.5", "seed must be an integer in [0, 18446744073709551615], not 1.5"},
                          {"seed", "-1", "seed must be an integer in [0, 18446744073709551615], not -1"},
                          {"max_tokens", "5.0", "max_tokens must be an integer in [1, 2147483648], not 5.0"},
                          {"priority", "-1", "priority must be an integer in [0, 1000000]"},
                          {"tenant", "4294967296", "tenant must be an integer in [0, 4294967295]"},
                          {"arrival_ms", "-1", "arrival_ms must be a number in [0.0, 1000000000.0]"},
                          {"deadline_ms", "0", "deadline_ms must be a number in [0.001, 1000000000.0]"}};
  for (const Bad& bad : kBad) {
    Json line = request("a", some_ids(3), 2);
    line[bad.key] = Json::parse(bad.value);
    const Outcome outcome = run_requests(tiny.path(), line.dump() + "\n");
    INFO(bad.key << ": " << bad.value << ": " << outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(contains(outcome.err, std::string("-:1: ") + bad.why));
  }
  const Outcome help = run_kvpage({"bench", "--help"});
  for (const Bad& bad : kBad) CHECK(contains(help.out, std::string("  ") + bad.key + " "));
}

TEST_CASE("cli.requests.fields_do_what_they_say", "[cli]") {
  const TinyFile tiny(plain_model());
  const auto prompt = some_ids(12);
  const Json plain = requests_of(tiny.path(), lines_of({request("a", prompt, 8)}))["requests"][0];
  const auto ids = plain["output_ids"].get<std::vector<kvpage::TokenId>>();
  REQUIRE(ids.size() == 8);
  const Json out = requests_of(
      tiny.path(), lines_of({request("stop token", prompt, 8, {{"stop_tokens", {ids[3]}}}),
                             request("not before", prompt, 8, {{"stop_tokens", {ids[0]}}, {"min_tokens", 5}}),
                             request("bias", prompt, 8, {{"logit_bias", {{"9", 100}}}}),
                             request("drawn", prompt, 8, {{"temperature", 2}, {"seed", 7}}),
                             request("drawn again", prompt, 8, {{"temperature", 2}, {"seed", 7}}),
                             request("logprobs", prompt, 3, {{"logprobs", 2}}), request("two", prompt, 4, {{"n", 2}, {"temperature", 2}}),
                             request("beam", prompt, 4, {{"beam", 3}, {"n", 2}}),
                             request("late", prompt, 100, {{"deadline_ms", 0.001}, {"arrival_ms", 1}})}))["requests"];
  const auto first_stop = std::find(ids.begin(), ids.end(), ids[3]) - ids.begin();
  CHECK(out[0]["output_ids"] == Json(std::vector(ids.begin(), ids.begin() + first_stop)));
  CHECK(out[0]["finish_reason"] == "stop");
  CHECK(out[1]["output_ids"].size() >= 5);
  for (const Json& id : out[2]["output_ids"]) CHECK(id == 9);
  CHECK(out[3]["output_ids"] == out[4]["output_ids"]);
  CHECK(out[3]["output_ids"] != plain["output_ids"]);
  CHECK(out[3]["seed"] == 7);
  REQUIRE(out[5]["logprobs"].size() == 3);
  for (const Json& token : out[5]["logprobs"]) {
    CHECK(token["top"].size() == 2);
    CHECK(token["top"][0] == Json::array({token["id"], token["logprob"]}));  // greedy: the likeliest
    CHECK(token["logprob"] < 0);
  }
  CHECK(out[6]["answers"].size() == 2);
  CHECK(out[6]["answers"][0]["output_ids"] != out[6]["answers"][1]["output_ids"]);
  REQUIRE(out[7]["answers"].size() == 2);
  CHECK(out[7]["answers"][0]["sum_logprob"] >= out[7]["answers"][1]["sum_logprob"]);
  CHECK(out[8]["finish_reason"] == "deadline");
}

TEST_CASE("cli.requests.what_fields_allow_together_is_the_engines_to_refuse", "[cli]") {
  const TinyFile tiny(plain_model());
  const Json out = requests_of(tiny.path(), lines_of({request("few", some_ids(3), 2, {{"n", 3}, {"best_of", 2}}),
                                                      request("long", some_ids(3), 2, {{"min_tokens", 3}}),
                                                      request("good", some_ids(3), 2)}));
  CHECK(out["requests"][0]["error"]["kind"] == "bad_parameter");
  CHECK(contains(out["requests"][0]["error"]["message"].get<std::string>(), "best_of"));
  CHECK(out["requests"][0]["error"]["value"] == 2);
  CHECK(out["requests"][0]["error"]["limit"] == 3);
  CHECK(contains(out["requests"][1]["error"]["message"].get<std::string>(), "min_tokens"));
  CHECK(out["requests"][2]["output_ids"].size() == 2);
  CHECK(out["totals"]["refused"] == 2);
}

}  // namespace kvpage_test
