/// \file JSON into template values.
#include "engine/chat/json_value.hpp"

#include "engine/chat/limits.hpp"

#include <nlohmann/json.hpp>

namespace kvpage::engine {
namespace {

using chat::Value;
using Json = nlohmann::ordered_json;

/// Takes the events of a JSON text. Integers keep every digit.
class ValueBuilder : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return put(Value::none()); }
  bool boolean(bool value) override { return put(Value::boolean(value)); }
  bool number_integer(std::int64_t value) override { return put(Value::integer(value)); }
  bool number_unsigned(std::uint64_t value) override { return put(whole(std::to_string(value))); }
  bool number_float(double value, const std::string& text) override {
    return put(text.find_first_of(".eE") == std::string::npos ? whole(text) : Value::number(value));
  }
  bool string(std::string& value) override { return put(Value::text(value)); }
  bool binary(Json::binary_t&) override { chat::fail_runtime("JSON has no binary values"); }
  bool key(std::string& value) override { return open_.back().keys.push_back(value), true; }
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }

  bool end_object() override {
    std::vector<chat::Dict::Entry> entries;
    for (std::size_t i = 0; i < open_.back().keys.size(); ++i) {
      entries.push_back({Value::text(std::move(open_.back().keys[i])), std::move(open_.back().items[i])});
    }
    open_.pop_back();
    return put(Value::dict(std::move(entries)));
  }

  bool end_array() override {
    Value list = Value::list(std::move(open_.back().items));
    open_.pop_back();
    return put(std::move(list));
  }

  bool parse_error(std::size_t at, const std::string&, const nlohmann::detail::exception& error) override {
    chat::fail(TemplateErrorKind::kSyntax, "invalid JSON at byte " + std::to_string(at) + ": " + error.what());
  }

  Value take() { return std::move(root_); }

 private:
  struct Container {
    std::vector<std::string> keys;  // empty for an array
    std::vector<Value> items;
  };

  static Value whole(const std::string& text) {
    const bool negative = text.starts_with('-');
    const auto size = chat::BigInteger::parse(std::string_view{text}.substr(negative ? 1 : 0), 10);
    return Value::integer(negative ? -*size : *size);
  }

  bool open() {
    if (open_.size() >= static_cast<std::size_t>(chat::kMaxDepth)) {
      chat::fail(TemplateErrorKind::kLimit, "JSON nests deeper than " + std::to_string(chat::kMaxDepth) + " levels");
    }
    open_.emplace_back();
    return true;
  }

  bool put(Value value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else {
      open_.back().items.push_back(std::move(value));
    }
    return true;
  }

  std::vector<Container> open_;
  Value root_;
};

}  // namespace

Expected<chat::Value, TemplateError> template_value(std::string_view json) {
  try {
    ValueBuilder builder;
    Json::sax_parse(json.begin(), json.end(), &builder);
    return builder.take();
  } catch (chat::TemplateFailure& failure) {
    return Unexpected{std::move(failure.error)};
  }
}

}  // namespace kvpage::engine
