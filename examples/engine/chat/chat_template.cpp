/// \file Compilation and rendering of a chat template.
#include "engine/chat/chat_template.hpp"

#include "engine/chat/interpreter.hpp"
#include "engine/chat/parser.hpp"
#include "engine/chat/token.hpp"

namespace kvpage::engine {

Expected<ChatTemplate, TemplateError> ChatTemplate::compile(std::string_view source) {
  try {
    return ChatTemplate{std::make_shared<const chat::Program>(chat::Parser{chat::scan_template(source)}.parse())};
  } catch (chat::TemplateFailure& failure) {
    return Unexpected{std::move(failure.error)};
  }
}

Expected<RenderedPrompt, TemplateError> ChatTemplate::render(const ChatInputs& inputs) const {
  try {
    const chat::TrustedText text = chat::Interpreter{inputs}.run(*program_);
    return RenderedPrompt{text.bytes(), text.spans()};
  } catch (chat::TemplateFailure& failure) {
    return Unexpected{std::move(failure.error)};
  }
}

}  // namespace kvpage::engine
