/// \file Compilation and rendering of a chat template, and the names that it starts with.
#include "engine/chat/chat_template.hpp"

#include "engine/chat/functions.hpp"
#include "engine/chat/interpreter.hpp"
#include "engine/chat/syntax.hpp"
#include "engine/chat/text.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

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

namespace kvpage::engine::chat {
namespace {

Value with_trusted_role(const Value& message) {
  const Dict* const fields = message.as_dict();
  const Value* const role = fields != nullptr ? fields->find("role") : nullptr;
  const TrustedText* const text = role != nullptr ? role->as_text() : nullptr;
  if (text == nullptr || std::find(kKnownRoles.begin(), kKnownRoles.end(), text->bytes()) == kKnownRoles.end()) return message;
  std::vector<Dict::Entry> entries = fields->entries();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (&fields->entries()[i].value == role) entries[i].value = Value::text(TrustedText::trusted(text->bytes()));
  }
  return Value::dict(std::move(entries));
}

}  // namespace

Value with_trusted_roles(const Value& messages) {
  const List* const list = messages.as_list();
  if (list == nullptr) return messages;
  std::vector<Value> items;
  items.reserve(list->items.size());
  std::transform(list->items.begin(), list->items.end(), std::back_inserter(items), with_trusted_role);
  return Value::list(std::move(items), list->form);
}

Value Interpreter::make_range(const Arguments& arguments) {
  const BoundArguments bound{arguments, {"first", "second", "step"}, 1};
  const bool one = bound[1] == nullptr;
  const std::int64_t start = one ? 0 : bound.integer(0, 0), stop = bound.integer(one ? 0 : 1, 0), step = bound.integer(2, 1);
  if (step == 0) fail_runtime("a range has step zero");
  std::vector<Value> items;
  for (std::int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<std::int64_t>(items.size()) >= kMaxRange) {
      fail(TemplateErrorKind::kLimit, "a range of more than " + std::to_string(kMaxRange) + " elements");
    }
    items.push_back(Value::integer(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  budget_.charge(1 + items.size());
  return Value::list(std::move(items), ListForm::kRange);
}

/// dict(): of a map or of pairs, then the named arguments.
Value Interpreter::make_dict(const Arguments& arguments) {
  std::vector<Dict::Entry> entries;
  if (arguments.positional.size() > 1) fail_runtime("dict() takes one value without a name");
  for (const Value& value : arguments.positional) {
    if (const Dict* dict = value.as_dict()) {
      budget_.charge(1 + dict->entries().size());
      entries = dict->entries();
      continue;
    }
    for (const Value& item : elements(budget_, value)) {
      const std::vector<Value> pair = elements(budget_, item);
      if (pair.size() != 2) fail_runtime("dict() needs pairs of a key and a value");
      entries.push_back({pair[0], pair[1]});
    }
  }
  // A name may come from a message, through **, so none is trusted.
  for (const auto& [key, value] : arguments.named) entries.push_back({Value::text(std::string{key}), value});
  return make_map(budget_, std::move(entries));
}

Value Interpreter::make_namespace(const Arguments& arguments) {
  const Value map = make_dict(arguments);
  Namespace& space = namespaces_.emplace_back();
  for (const Dict::Entry& entry : map.as_dict()->entries()) {
    const TrustedText* name = entry.key.as_text();
    if (name == nullptr) fail_runtime("an attribute is named by a string, not " + std::string{entry.key.type_name()});
    require_public_key(name->bytes());
    space.attributes.emplace_back(name->bytes(), entry.value);
  }
  return Value::of(space);
}

Value Interpreter::make_cycler(const Arguments& arguments, bool joins) {
  if (joins) {
    const BoundArguments bound{arguments, {"sep"}};
    return Value::of(cyclers_.emplace_back(Cycler{{bound[0] != nullptr ? *bound[0] : Value::text(std::string{", "})}, true}));
  }
  if (arguments.positional.empty() || !arguments.named.empty()) fail_runtime("cycler() needs values without names");
  return Value::of(cyclers_.emplace_back(Cycler{arguments.positional}));
}

Value Interpreter::strftime_now(const Arguments& arguments) {
  const BoundArguments bound{arguments, {"format"}, 1};
  const TrustedText* format = bound.text(0);
  if (format == nullptr) fail_runtime("strftime_now needs a format");
  if (!inputs_.local_time) fail_runtime("strftime_now needs the time, which this caller does not give");
  budget_.charge_bytes(format->size());
  return Value::text(format_time(format->bytes(), inputs_.local_time()));
}

std::string format_time(std::string_view format, const std::tm& time) {
  constexpr std::string_view kConversions = "aAbBcCdDeFgGhHIjlkmMnpPrRStTuUVwWxXyY%";
  std::string out;
  for (std::size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%') {
      out.push_back(format[at]);
      continue;
    }
    std::size_t letter = at + 1;
    while (letter < format.size() && std::string_view{"-_0^#"}.find(format[letter]) != std::string_view::npos) ++letter;  // padding, case
    if (letter >= format.size() || kConversions.find(format[letter]) == std::string_view::npos) {
      fail(TemplateErrorKind::kUnsupported, "the time format '" + std::string{format.substr(at, 3)} + "' is not supported");
    }
    const std::string one{format.substr(at, letter - at + 1)};
    char buffer[64];
    out.append(buffer, std::strftime(buffer, sizeof buffer, one.c_str(), &time));
    at = letter;
  }
  return out;
}

}  // namespace kvpage::engine::chat
