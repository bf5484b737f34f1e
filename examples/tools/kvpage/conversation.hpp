/// \file Conversation: the messages of a chat and the token ids that the model's template makes of them.
#pragma once

#include "engine/chat/chat_template.hpp"
#include "engine/tokenizer/tokenizer.hpp"

#include <string>
#include <utility>
#include <vector>

namespace kvpage::cli {

/// Requires: template and tokenizer outlive it.
class Conversation {
 public:
  Conversation(const engine::ChatTemplate& chat_template, const engine::Tokenizer& tokenizer)
      : template_(chat_template), tokenizer_(tokenizer) {}

  void add(std::string role, std::string content) { messages_.emplace_back(std::move(role), std::move(content)); }
  /// Takes the last message back (a question that could not be answered).
  void drop_last() { messages_.pop_back(); }

  /// Ids of the whole chat so far, ready for an answer. Special tokens written by users stay plain text. Warns, once, of a template that
  /// leaves out what the system or the user says. Errors: Failure when the template refuses the messages.
  std::vector<TokenId> prompt_ids();

 private:
  void warn_of_left_out(const std::string& rendered);

  const engine::ChatTemplate& template_;
  const engine::Tokenizer& tokenizer_;
  std::vector<std::pair<std::string, std::string>> messages_;  // role, content
  bool warned_ = false;
};

}  // namespace kvpage::cli
