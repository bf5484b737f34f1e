/// \file ChatTemplate: a model's own chat template, compiled once; turns messages into the prompt that the model was trained on.
#pragma once

#include "engine/chat/value.hpp"

#include <kvpage/base/expected.hpp>

#include <array>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvpage::engine {

/// What a template sees. Values from JSON: template_value.
struct ChatInputs {
  chat::Value messages;                     ///< list of maps; their roles are trusted if known (kKnownRoles)
  chat::Value tools = chat::Value::none();  ///< list of maps, or none
  bool add_generation_prompt = true;
  std::string bos_token;  ///< text of the special token, "" if the model has none; trusted
  std::string eos_token;
  /// Further typed arguments, e.g. enable_thinking; they hide the names above. A server takes the names from a list of its own.
  std::vector<std::pair<std::string, chat::Value>> arguments;
  /// Local time for strftime_now; without it a call of strftime_now fails.
  std::function<std::tm()> local_time;
};

/// The prompt: encode `text` as one string, in which a special token counts only if it lies inside one trusted span.
struct RenderedPrompt {
  std::string text;
  std::vector<TrustedSpan> trusted;  // sorted, disjoint
};

namespace chat {
struct Program;
}

/// A compiled template in Jinja2 with trim_blocks and lstrip_blocks, as model files use it; docs/templates.md lists what is not supported.
/// It can only read its inputs: attribute access is map access or a listed method, attributes and keys with `_` and variables with `__`
/// in front are refused, and chat/value.hpp caps source, steps, output, depth, ranges and integers.
/// Threads: render may run at the same time on any.
class ChatTemplate {
 public:
  /// Errors: kSyntax, kUnsupported or kLimit, with the line.
  [[nodiscard]] static Expected<ChatTemplate, TemplateError> compile(std::string_view source);

  /// Errors: kRuntime, kUnsupported, kLimit or kRaised, with the line. Cost: linear in the steps that the template takes.
  [[nodiscard]] Expected<RenderedPrompt, TemplateError> render(const ChatInputs& inputs) const;

 private:
  explicit ChatTemplate(std::shared_ptr<const chat::Program> program) : program_(std::move(program)) {}

  std::shared_ptr<const chat::Program> program_;
};

/// The value that a JSON text describes; maps keep the order of their keys, integers every digit.
/// Errors: kSyntax for what is no JSON or a number beyond 1.8e308; kLimit when lists and maps nest deeper than chat::kMaxDepth.
[[nodiscard]] Expected<chat::Value, TemplateError> template_value(std::string_view json);

}  // namespace kvpage::engine

namespace kvpage::engine::chat {

/// The roles that templates of published models compare with or write. A closed list, not a form: a marker such as
/// `'<|' + role + '|>'` becomes one token with these, and `im_end` or `endoftext` are no roles.
inline constexpr std::array<std::string_view, 9> kKnownRoles{"system", "developer", "user",    "assistant",  "tool",
                                                             "function", "model",    "ipython", "observation"};

/// `messages` in which the `role` of each message is trusted if it is exactly one of kKnownRoles. Contents, names, tool calls
/// and other roles stay as they are, so nothing that a user writes is trusted.
Value with_trusted_roles(const Value& messages);

}  // namespace kvpage::engine::chat
