#include "tools/kvpage/json_ids.hpp"

#include "engine/text/json_text.hpp"

#include <sstream>
#include <stdexcept>
#include <utility>

namespace kvpage::cli {

nlohmann::json parse_document(const std::string& text, const std::string& name) {
  auto document = engine::parse_json(text);
  if (!document) throw Failure(kExitUsage, name + ": " + document.error().what);
  return std::move(*document);
}

void for_each_json_line(const std::string& text, const std::string& name,
                        const std::function<void(const nlohmann::json&, std::int64_t line)>& use) {
  std::istringstream stream(text);
  std::string line;
  for (std::int64_t number = 1; std::getline(stream, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string place = name + ":" + std::to_string(number);
    const nlohmann::json value = parse_document(line, place);
    try {
      use(value, number);
    } catch (const std::exception& error) {
      throw Failure(kExitUsage, place + ": " + error.what());
    }
  }
}

std::vector<TokenId> read_ids(const nlohmann::json& value, const std::string& key, std::int64_t most) {
  if (!value.is_array()) throw std::runtime_error(key + " must be an array of token ids, not " + engine::shown(value));
  std::vector<TokenId> ids;
  for (const auto& element : value) {
    const auto id = engine::json_integer(element, 0, most - 1);
    if (!id) {
      throw std::runtime_error(key + " must hold ids in [0, " + std::to_string(most) + "), not " + engine::shown(element) + " (element " +
                               std::to_string(ids.size()) + ")");
    }
    ids.push_back(static_cast<TokenId>(*id));
  }
  return ids;
}

std::string json_array(const std::vector<TokenId>& ids) {
  std::string text = "[";
  for (const TokenId id : ids) text += (text.size() > 1 ? ", " : "") + std::to_string(id);
  return text + "]";
}

}  // namespace kvpage::cli
