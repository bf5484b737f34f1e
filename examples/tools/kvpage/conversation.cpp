#include "tools/kvpage/conversation.hpp"

#include "engine/chat/json_value.hpp"
#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/loaded_model.hpp"

#include <nlohmann/json.hpp>

namespace kvpage::cli {
std::vector<TokenId> Conversation::prompt_ids() const {
  auto messages = nlohmann::ordered_json::array();
  for (const auto& [role, content] : messages_) messages.push_back({{"role", role}, {"content", content}});
  auto value = engine::template_value(messages);
  if (!value) throw Failure(kExitUsage, value.error().message);
  engine::ChatInputs inputs;
  inputs.messages = std::move(*value);
  inputs.bos_token = special_text(tokenizer_, tokenizer_.bos());
  inputs.eos_token = special_text(tokenizer_, tokenizer_.eos());
  inputs.local_time = local_time_now;
  const auto rendered = template_.render(inputs);
  if (!rendered) throw Failure(kExitRun, rendered.error().text());
  return tokenizer_.encode_chat(rendered->text, rendered->trusted);
}

}  // namespace kvpage::cli
