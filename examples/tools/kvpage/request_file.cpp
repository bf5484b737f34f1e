#include "tools/kvpage/request_file.hpp"

#include "tools/kvpage/json_ids.hpp"
#include "tools/kvpage/loaded_model.hpp"
#include "tools/kvpage/request_field.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <stdexcept>
#include <utility>

namespace kvpage::cli {
namespace {

using Json = nlohmann::json;

RequestLine read_request(const Json& line, std::int64_t number) {
  if (!line.is_object()) throw std::runtime_error("each line must be an object");
  for (const auto& item : line.items()) {
    const bool known = std::any_of(std::begin(kRequestFields), std::end(kRequestFields),
                                   [&](const RequestField& field) { return item.key() == field.key; });
    if (known) continue;
    std::string names;
    for (const RequestField& field : kRequestFields) names += std::string(names.empty() ? "" : ", ") + field.key;
    throw std::runtime_error("unknown field " + engine::shown(item.key()) + "; known are " + names);
  }
  for (const char* key : {"id", "max_tokens"}) {
    if (!line.contains(key)) throw std::runtime_error(std::string(key) + " is missing");
  }
  if (line.contains("prompt") == line.contains("prompt_ids")) throw std::runtime_error("exactly one of prompt and prompt_ids is wanted");
  RequestLine request{.number = number};
  request.timed.request.sampling.temperature = 0;
  for (const RequestField& field : kRequestFields) {
    if (const auto found = line.find(field.key); found != line.end()) field.read({*found, field.key}, request);
  }
  if (!request.prompt && request.timed.request.prompt_ids.empty()) throw std::runtime_error("the prompt has no tokens");
  return request;
}

/// Errors: Failure that names the place when the vocabulary lacks an id.
void require_ids(const engine::GenerationRequest& request, std::int64_t vocab_size, const std::string& place) {
  require_in_vocabulary(request.prompt_ids, vocab_size, place + "prompt_ids");
  require_in_vocabulary(request.stop_tokens, vocab_size, place + "stop_tokens");
  std::vector<TokenId> biased;
  for (const LogitBias& bias : request.logit_bias) biased.push_back(bias.id);
  require_in_vocabulary(biased, vocab_size, place + "logit_bias");
}

}  // namespace

std::vector<RequestLine> read_request_lines(const std::string& text, const std::string& file_name) {
  std::vector<RequestLine> lines;
  std::set<std::string> ids;
  for_each_json_line(text, file_name, [&](const Json& line, std::int64_t number) {
    lines.push_back(read_request(line, number));
    const std::string& id = lines.back().timed.request.name;
    if (!ids.insert(id).second) throw std::runtime_error("an earlier request has the id " + engine::shown(id) + "; each needs its own");
  });
  return lines;
}

std::vector<TimedRequest> to_requests(std::vector<RequestLine> lines, const std::string& file_name, const engine::Tokenizer& tokenizer,
                                      std::int64_t vocab_size) {
  std::vector<TimedRequest> requests;
  for (RequestLine& line : lines) {
    const std::string place = file_name + ":" + std::to_string(line.number) + ": ";
    engine::GenerationRequest& request = line.timed.request;
    if (line.prompt) request.prompt_ids = encode_or_warn(tokenizer, *line.prompt, {.add_special = true, .parse_special = true});
    if (request.prompt_ids.empty()) throw Failure(kExitUsage, place + "the prompt has no tokens");
    require_ids(request, vocab_size, place);
    requests.push_back(std::move(line.timed));
  }
  return requests;
}

std::string request_fields_help() {
  std::string text;
  for (const RequestField& field : kRequestFields) {
    text += std::string("  ") + field.key + std::string(20 - std::string(field.key).size(), ' ') + field.help + "\n";
  }
  return text;
}

}  // namespace kvpage::cli
