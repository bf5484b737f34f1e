/// \file Requests for bench --requests and what came back.
#pragma once

#include "cli/program.hpp"
#include "support/catch.hpp"

#include <kvpage/base/types.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace kvpage_test {

using Json = nlohmann::json;

/// A line of a request file, greedy, to be run to max_tokens.
inline Json request(const std::string& id, const Json& prompt, std::int64_t max_tokens, const Json& more = Json::object()) {
  Json line{{"id", id}, {prompt.is_string() ? "prompt" : "prompt_ids", prompt}, {"max_tokens", max_tokens}, {"ignore_eos", true}};
  line.update(more);
  return line;
}

inline std::string lines_of(const std::vector<Json>& requests) {
  std::string text;
  for (const Json& one : requests) text += one.dump() + "\n";
  return text;
}

inline Outcome run_requests(const std::string& model, const std::string& lines, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments{"bench", "--model", model, "--requests", "-", "--json", "--threads", "2"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_kvpage(arguments, lines);
}

inline Json requests_of(const std::string& model, const std::string& lines, std::vector<std::string> more = {}) {
  const Outcome outcome = run_requests(model, lines, std::move(more));
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return Json::parse(outcome.out);
}

/// What `bench --json` without a file says, on one thread.
inline Json bench(const std::string& model, std::vector<std::string> more) {
  std::vector<std::string> arguments{"bench", "--model", model, "--json", "--threads", "1"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome outcome = run_kvpage(arguments);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return Json::parse(outcome.out);
}

/// All answers of all requests: ids, texts and ends.
inline std::map<std::string, Json> answers_of(const Json& result) {
  std::map<std::string, Json> answers;
  for (const Json& one : result["requests"]) {
    INFO(one.dump());
    REQUIRE_FALSE(one.contains("error"));
    Json all = one.contains("answers") ? one["answers"] : Json::array({one["output_ids"], one["text"], one["finish_reason"]});
    answers[one["id"].get<std::string>()] = std::move(all);
  }
  return answers;
}

/// Distinct ids from `first` on.
inline std::vector<kvpage::TokenId> counting(kvpage::TokenId first, std::size_t count) {
  std::vector<kvpage::TokenId> ids;
  for (std::size_t i = 0; i < count; ++i) ids.push_back(first + 7 * static_cast<kvpage::TokenId>(i));
  return ids;
}

inline std::vector<kvpage::TokenId> joined(std::vector<kvpage::TokenId> ids, const std::vector<kvpage::TokenId>& more) {
  ids.insert(ids.end(), more.begin(), more.end());
  return ids;
}

}  // namespace kvpage_test
