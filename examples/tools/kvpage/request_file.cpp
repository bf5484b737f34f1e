#include "tools/kvpage/request_file.hpp"

#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/json_ids.hpp"
#include "tools/kvpage/loaded_model.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <stdexcept>

namespace kvpage::cli {
namespace {

using Json = nlohmann::json;

/// What the fields of a line are read with.
struct LineContext {
  const engine::Tokenizer& tokenizer;
  std::int64_t vocab_size;
};

std::int64_t read_count(const Json& value, const char* key) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() < 1 || value.get<std::uint64_t>() > std::uint64_t{kMost}) {
    throw std::runtime_error(std::string(key) + " must be an integer in [1, " + std::to_string(kMost) + "]");
  }
  return value.get<std::int64_t>();
}

void read_id(const Json& value, const LineContext&, engine::EngineRequest& request) {
  if (!value.is_string() && !value.is_number_integer()) throw std::runtime_error("id must be a text or an integer");
  request.id = value.is_string() ? value.get<std::string>() : value.dump();
}

void read_prompt(const Json& value, const LineContext& context, engine::EngineRequest& request) {
  if (!value.is_string()) throw std::runtime_error("prompt must be a text");
  request.prompt_ids = encode_or_warn(context.tokenizer, value.get<std::string>(), {.add_special = true, .parse_special = true});
}

void read_prompt_ids(const Json& value, const LineContext& context, engine::EngineRequest& request) {
  request.prompt_ids = read_ids(value, "prompt_ids", context.vocab_size);
}

void read_max_tokens(const Json& value, const LineContext&, engine::EngineRequest& request) {
  request.max_tokens = read_count(value, "max_tokens");
}

void read_ignore_eos(const Json& value, const LineContext&, engine::EngineRequest& request) {
  if (!value.is_boolean()) throw std::runtime_error("ignore_eos must be true or false");
  request.ignore_eos = value.get<bool>();
}

/// Everything that a line may say.
struct Field {
  const char* key;
  void (*read)(const Json&, const LineContext&, engine::EngineRequest&);
};
constexpr Field kFields[] = {{"id", read_id},
                             {"prompt", read_prompt},
                             {"prompt_ids", read_prompt_ids},
                             {"max_tokens", read_max_tokens},
                             {"ignore_eos", read_ignore_eos}};

std::string field_names() {
  std::string names;
  for (const Field& field : kFields) names += std::string(names.empty() ? "" : ", ") + field.key;
  return names;
}

engine::EngineRequest read_request(const Json& line, const LineContext& context) {
  if (!line.is_object()) throw std::runtime_error("each line must be an object");
  for (const auto& item : line.items()) {
    const bool known = std::any_of(std::begin(kFields), std::end(kFields), [&](const Field& field) { return item.key() == field.key; });
    if (!known) throw std::runtime_error("unknown field " + Json(item.key()).dump() + "; known are " + field_names());
  }
  for (const char* key : {"id", "max_tokens"}) {
    if (!line.contains(key)) throw std::runtime_error(std::string(key) + " is missing");
  }
  if (line.contains("prompt") == line.contains("prompt_ids")) throw std::runtime_error("exactly one of prompt and prompt_ids is wanted");
  engine::EngineRequest request;
  for (const Field& field : kFields) {
    if (const auto found = line.find(field.key); found != line.end()) field.read(*found, context, request);
  }
  if (request.prompt_ids.empty()) throw std::runtime_error("the prompt has no tokens");
  return request;
}

}  // namespace

std::vector<engine::EngineRequest> read_requests(const std::string& text, const std::string& file_name, const engine::Tokenizer& tokenizer,
                                                 std::int64_t vocab_size) {
  std::vector<engine::EngineRequest> requests;
  std::set<std::string> ids;
  for_each_json_line(text, file_name, [&](const Json& line) {
    requests.push_back(read_request(line, {tokenizer, vocab_size}));
    const std::string& id = requests.back().id;
    if (!ids.insert(id).second) throw std::runtime_error("an earlier request has the id " + Json(id).dump() + "; each needs its own");
  });
  return requests;
}

}  // namespace kvpage::cli
