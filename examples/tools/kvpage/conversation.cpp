#include "tools/kvpage/conversation.hpp"

#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/loaded_model.hpp"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <string_view>

namespace kvpage::cli {
namespace {

/// A text without the space around it, which templates cut off.
std::string_view stripped(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\f\v";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

/// Whether a prompt has a message, as it is or as JSON.
bool holds(std::string_view prompt, std::string_view message) {
  if (prompt.find(message) != std::string_view::npos) return true;
  const std::string quoted = nlohmann::json(message).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return prompt.find(std::string_view(quoted).substr(1, quoted.size() - 2)) != std::string_view::npos;
}

}  // namespace

void Conversation::warn_of_left_out(const std::string& rendered) {
  for (const auto& [role, content] : messages_) {
    if (warned_ || role == "assistant" || holds(rendered, stripped(content))) continue;
    std::fprintf(stderr, "warning: the chat template leaves out what the %s says; the model does not see it\n", role.c_str());
    warned_ = true;
  }
}

std::vector<TokenId> Conversation::prompt_ids() {
  using engine::chat::Value;
  const auto text = [](const std::string& bytes) { return Value::text(bytes); };
  std::vector<Value> messages;
  for (const auto& [role, content] : messages_) {
    messages.push_back(Value::dict({{text("role"), text(role)}, {text("content"), text(content)}}));
  }
  engine::ChatInputs inputs;
  inputs.messages = Value::list(std::move(messages));
  inputs.bos_token = special_text(tokenizer_, tokenizer_.bos());
  inputs.eos_token = special_text(tokenizer_, tokenizer_.eos());
  inputs.local_time = local_time_now;
  const auto rendered = template_.render(inputs);
  if (!rendered) throw Failure(kExitRun, rendered.error().text());
  warn_of_left_out(rendered->text);
  return tokenizer_.encode_chat(rendered->text, rendered->trusted);
}

}  // namespace kvpage::cli
