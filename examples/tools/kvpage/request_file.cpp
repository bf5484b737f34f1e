#include "tools/kvpage/request_file.hpp"

#include "tools/kvpage/json_ids.hpp"
#include "tools/kvpage/loaded_model.hpp"
#include "tools/kvpage/request_field.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <stdexcept>

namespace kvpage::cli {
namespace {

using Json = nlohmann::json;

TimedRequest read_request(const Json& line, const FieldContext& context) {
  if (!line.is_object()) throw std::runtime_error("each line must be an object");
  for (const auto& item : line.items()) {
    const bool known = std::any_of(std::begin(kRequestFields), std::end(kRequestFields),
                                   [&](const RequestField& field) { return item.key() == field.key; });
    if (known) continue;
    std::string names;
    for (const RequestField& field : kRequestFields) names += std::string(names.empty() ? "" : ", ") + field.key;
    throw std::runtime_error("unknown field " + Json(item.key()).dump() + "; known are " + names);
  }
  for (const char* key : {"id", "max_tokens"}) {
    if (!line.contains(key)) throw std::runtime_error(std::string(key) + " is missing");
  }
  if (line.contains("prompt") == line.contains("prompt_ids")) throw std::runtime_error("exactly one of prompt and prompt_ids is wanted");
  TimedRequest request;
  request.request.sampling.temperature = 0;
  for (const RequestField& field : kRequestFields) {
    if (const auto found = line.find(field.key); found != line.end()) field.read({*found, field.key, context}, request);
  }
  if (request.request.prompt_ids.empty()) throw std::runtime_error("the prompt has no tokens");
  return request;
}

}  // namespace

std::vector<TimedRequest> read_requests(const std::string& text, const std::string& file_name, const engine::Tokenizer& tokenizer,
                                        std::int64_t vocab_size) {
  std::vector<TimedRequest> requests;
  std::set<std::string> ids;
  for_each_json_line(text, file_name, [&](const Json& line) {
    requests.push_back(read_request(line, {tokenizer, vocab_size}));
    const std::string& id = requests.back().request.name;
    if (!ids.insert(id).second) throw std::runtime_error("an earlier request has the id " + Json(id).dump() + "; each needs its own");
  });
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
