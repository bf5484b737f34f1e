/// \file JSON into template values.
#include "engine/chat/json_value.hpp"

#include "engine/chat/limits.hpp"

#include <nlohmann/json.hpp>

#include <limits>

namespace kvpage::engine {
namespace {

using chat::Value;

Value convert(const nlohmann::ordered_json& json, int level) {
  using Type = nlohmann::ordered_json::value_t;
  if (level > chat::kMaxDepth) {
    chat::fail(TemplateErrorKind::kLimit, "JSON nests deeper than " + std::to_string(chat::kMaxDepth) + " levels");
  }
  switch (json.type()) {
    case Type::null: return Value::none();
    case Type::boolean: return Value::boolean(json.get<bool>());
    case Type::number_integer: return Value::integer(json.get<std::int64_t>());
    case Type::number_float: return Value::number(json.get<double>());
    case Type::string: return Value::text(json.get_ref<const std::string&>());
    case Type::number_unsigned: {
      const auto number = json.get<std::uint64_t>();
      if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        chat::fail_runtime("the JSON integer " + std::to_string(number) + " does not fit 64 signed bits");
      }
      return Value::integer(static_cast<std::int64_t>(number));
    }
    case Type::array: {
      std::vector<Value> items;
      for (const auto& item : json) items.push_back(convert(item, level + 1));
      return Value::list(std::move(items));
    }
    case Type::object: {
      std::vector<chat::Dict::Entry> entries;
      for (const auto& [key, item] : json.items()) entries.push_back({chat::TrustedText::untrusted(key), convert(item, level + 1)});
      return Value::dict(std::move(entries));
    }
    case Type::binary:
    case Type::discarded: break;
  }
  chat::fail_runtime("a JSON value of type " + std::string{json.type_name()} + " has no meaning in a template");
}

}  // namespace

Expected<chat::Value, TemplateError> template_value(const nlohmann::ordered_json& json) {
  try {
    return convert(json, 1);
  } catch (chat::TemplateFailure& failure) {
    return Unexpected{std::move(failure.error)};
  }
}

}  // namespace kvpage::engine
