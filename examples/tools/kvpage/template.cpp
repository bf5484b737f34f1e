#include "engine/chat/chat_template.hpp"
#include "engine/tokenizer_from_gguf.hpp"
#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/loaded_model.hpp"

#include <cstdio>
#include <ctime>

namespace kvpage::cli {
namespace {

engine::chat::Value read_json_array(const std::string& path) {
  const std::string text = read_text(path);
  auto value = engine::template_value(text);
  if (!value) throw Failure(kExitUsage, path + ": " + value.error().message);
  if (value->as_list() == nullptr) throw Failure(kExitUsage, path + ": must hold a JSON array");
  return std::move(*value);
}

engine::ChatTemplate compile(const std::string& source, const std::string& path) {
  auto compiled = engine::ChatTemplate::compile(source);
  if (!compiled) throw Failure(kExitLoad, path + ": " + compiled.error().text());
  return std::move(*compiled);
}

}  // namespace

int render_template(const TemplateOptions& options) {
  engine::ChatInputs inputs;
  inputs.messages = read_json_array(options.messages);
  if (options.tools) inputs.tools = read_json_array(*options.tools);
  inputs.add_generation_prompt = options.generation_prompt;
  inputs.local_time = local_time_now;
  std::optional<engine::ChatTemplate> chat;
  if (options.template_file) {
    chat = compile(read_text(options.template_file), *options.template_file);
  } else {
    const TextModel m = open_text_model(*options.model);
    chat = compile_chat_template(m.file);
    if (!chat) throw Failure(kExitUsage, *options.model + " has no chat template; give one with --template FILE");
    inputs.bos_token = special_text(m.tokenizer, m.tokenizer.bos());
    inputs.eos_token = special_text(m.tokenizer, m.tokenizer.eos());
  }
  const auto rendered = chat->render(inputs);
  if (!rendered) throw Failure(kExitRun, rendered.error().text());
  std::fwrite(rendered->text.data(), 1, rendered->text.size(), stdout);
  return kExitOk;
}

}  // namespace kvpage::cli
