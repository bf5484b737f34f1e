#include "tools/kvpage/json_ids.hpp"

#include <sstream>
#include <stdexcept>

namespace kvpage::cli {

void for_each_json_line(const std::string& text, const std::string& name, const std::function<void(const nlohmann::json&)>& use) {
  std::istringstream stream(text);
  std::string line;
  for (int number = 1; std::getline(stream, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      use(nlohmann::json::parse(line));
    } catch (const std::exception& error) {
      throw Failure(kExitUsage, name + ":" + std::to_string(number) + ": " + error.what());
    }
  }
}

std::string shown(const nlohmann::json& value) {
  constexpr std::size_t kMostBytes = 40;
  const std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() <= kMostBytes ? text : text.substr(0, kMostBytes) + "...";
}

std::vector<TokenId> read_ids(const nlohmann::json& value, const char* key, std::int64_t vocab_size) {
  if (!value.is_array()) throw std::runtime_error(std::string(key) + " must be an array of token ids, not " + shown(value));
  std::vector<TokenId> ids;
  for (const auto& element : value) {
    const bool is_id = element.is_number_unsigned() && element.get<std::uint64_t>() < static_cast<std::uint64_t>(vocab_size);
    if (!is_id) {
      throw std::runtime_error(std::string(key) + " must hold ids in [0, " + std::to_string(vocab_size) + "), not " + shown(element));
    }
    ids.push_back(element.get<TokenId>());
  }
  return ids;
}

std::string json_array(const std::vector<TokenId>& ids) {
  std::string text = "[";
  for (const TokenId id : ids) text += (text.size() > 1 ? ", " : "") + std::to_string(id);
  return text + "]";
}

}  // namespace kvpage::cli
