/// \file Chats for template tests: generated from a seed, or written as JSON.
#pragma once

#include "engine/chat/chat_template.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>

namespace kvpage_test {

using Json = nlohmann::ordered_json;

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>{file}, {}};
}

/// The moment that the oracle's strftime_now stands at: Saturday 2024-07-06 09:05:03.
inline std::tm fixed_time() {
  std::tm time{};
  time.tm_year = 124, time.tm_mon = 6, time.tm_mday = 6, time.tm_hour = 9, time.tm_min = 5, time.tm_sec = 3;
  time.tm_wday = 6, time.tm_yday = 187;
  return time;
}

/// Inputs from a map {messages, tools, add_generation_prompt, bos_token, eos_token, other arguments}.
inline kvpage::engine::ChatInputs chat_inputs(const kvpage::engine::chat::Value& map) {
  kvpage::engine::ChatInputs inputs;
  inputs.local_time = fixed_time;
  for (const auto& [name, value] : map.as_dict()->entries()) {
    const std::string& key = name.as_text()->bytes();
    if (key == "messages") {
      inputs.messages = value;
    } else if (key == "tools") {
      inputs.tools = value;
    } else if (key == "add_generation_prompt") {
      inputs.add_generation_prompt = value.truthy();
    } else if (key == "bos_token") {
      inputs.bos_token = value.as_text()->bytes();
    } else if (key == "eos_token") {
      inputs.eos_token = value.as_text()->bytes();
    } else if (key != "documents" || !value.is_none()) {
      inputs.arguments.emplace_back(key, value);
    }
  }
  return inputs;
}
inline kvpage::engine::ChatInputs chat_inputs(const Json& json) {
  return chat_inputs(kvpage::engine::template_value(json.dump()).value());
}

/// Compiles and renders; the error's text instead of the prompt when that fails.
struct Rendering {
  bool ok = false;
  std::string text;
};
inline Rendering render(const std::string& source, const Json& inputs) {
  const auto compiled = kvpage::engine::ChatTemplate::compile(source);
  if (!compiled) return {false, compiled.error().text()};
  const auto prompt = compiled->render(chat_inputs(inputs));
  return prompt ? Rendering{true, prompt->text} : Rendering{false, prompt.error().text()};
}

/// Chats of 0 to 20 turns with everything that real ones have: no system, empty content, tools and their results, Unicode,
/// odd blanks, special tokens written by users, thoughts, parts instead of text.
class ChatGenerator {
 public:
  explicit ChatGenerator(std::uint64_t seed) : random_(seed) {}

  Json next() {
    Json messages = Json::array();
    if (chance(3)) messages.push_back({{"role", "system"}, {"content", content()}});
    const std::size_t turns = chance(4) ? pick(3) : pick(21);
    const bool with_tools = chance(3);
    for (std::size_t turn = 0; turn < turns; ++turn) add_turn(messages, turn % 2 == 0 ? "user" : "assistant", with_tools);
    Json inputs{{"messages", messages}, {"tools", with_tools && !chance(4) ? tools() : Json{}}, {"documents", nullptr}};
    inputs["add_generation_prompt"] = chance(2);
    inputs["bos_token"] = "<s>";
    inputs["eos_token"] = "</s>";
    if (chance(4)) inputs["enable_thinking"] = chance(2);
    return inputs;
  }

 private:
  std::size_t pick(std::size_t count) { return std::uniform_int_distribution<std::size_t>{0, count - 1}(random_); }
  bool chance(std::size_t one_in) { return pick(one_in) == 0; }

  std::string content() {
    static const std::array<std::string, 20> kPieces{"Hello",
                                                     " ",
                                                     "\n",
                                                     "",
                                                     "What is the capital of France?",
                                                     "été déjà — «fini»",
                                                     "🙂",
                                                     "  blanks  ",
                                                     "\n\n",
                                                     "<|end|>",
                                                     "<|turn|>system",
                                                     "{{ 7*7 }} {% raw %}",
                                                     "Привет, мир",
                                                     "\t",
                                                     "<think>\nso\n</think>\n\nAnswer",
                                                     "\"quoted\" 'both' \\",
                                                     "日本語　テキスト",
                                                     "<result>12</result>",
                                                     "line one\r\nline two",
                                                     "0"};
    std::string text;
    for (std::size_t count = pick(5); count > 0; --count) text += kPieces[pick(kPieces.size())];
    return text;
  }

  void add_turn(Json& messages, const std::string& role, bool with_tools) {
    Json message{{"role", role}, {"content", content()}};
    if (chance(12)) message["content"] = Json::array({{{"type", "text"}, {"text", content()}}, {{"type", "image"}}});
    if (chance(20)) message["content"] = nullptr;
    if (chance(10)) message["name"] = content();
    if (role == "assistant" && chance(8)) message["reasoning_content"] = content();
    if (role != "assistant" || !with_tools || !chance(3)) return messages.push_back(std::move(message));
    message["tool_calls"] = Json::array();
    const std::size_t calls = 1 + pick(2);
    for (std::size_t i = 0; i < calls; ++i) {
      message["tool_calls"].push_back(
          {{"type", "function"},
           {"function", {{"name", "get_weather"}, {"arguments", {{"city", content()}, {"days", pick(9)}, {"ratio", 0.5}}}}}});
    }
    messages.push_back(std::move(message));
    for (std::size_t i = 0; i < calls; ++i) messages.push_back({{"role", "tool"}, {"content", content()}});
  }

  Json tools() {
    Json city{{"type", "string"}, {"description", content()}};
    Json unit{{"type", "string"}, {"enum", {"C", "F", content()}}};
    Json days{{"type", "array"}, {"items", {{"type", "integer"}}}};
    Json nested{{"type", "object"}, {"properties", {{"lat", {{"type", "number"}}}, {"deep", {{"type", "object"}}}}}};
    Json parameters{
        {"type", "object"}, {"properties", {{"city", city}, {"unit", unit}, {"days", days}, {"at", nested}}}, {"required", {"city"}}};
    Json weather{{"type", "function"}, {"function", {{"name", "get_weather"}, {"description", content()}, {"parameters", parameters}}}};
    Json clock{{"type", "function"}, {"function", {{"name", "clock"}, {"parameters", {{"type", "object"}}}}}};
    return chance(2) ? Json::array({weather}) : Json::array({weather, clock});
  }

  std::mt19937_64 random_;
};

}  // namespace kvpage_test
