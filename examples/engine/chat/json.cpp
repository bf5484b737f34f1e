/// \file JSON text of template values, byte for byte as Python's json.dumps, and back.
#include "engine/chat/chat_template.hpp"
#include "engine/chat/functions.hpp"
#include "engine/chat/text.hpp"
#include "engine/chat/value.hpp"
#include "engine/text/json_text.hpp"

#include <algorithm>
#include <cmath>

namespace kvpage::engine::chat {
namespace {

void append_unit(std::string& out, char32_t unit) {
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out.push_back("0123456789abcdef"[unit >> shift & 0xF]);
}

void append_escaped(std::string& out, char32_t c, bool ensure_ascii) {
  constexpr std::string_view kShort = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
  const auto named = c < 0x80 ? kShort.find(static_cast<char>(c)) : std::string_view::npos;
  if (named != std::string_view::npos) {
    out.push_back('\\'), out.push_back(kLetters[named]);
  } else if (c < 0x20) {
    append_unit(out, c);
  } else if (c < 0x7F || !ensure_ascii || (c & kInvalidByte) != 0) {
    encode_to(out, c);
  } else if (c < 0x10000) {
    append_unit(out, c);
  } else {
    append_unit(out, 0xD800 + ((c - 0x10000) >> 10));
    append_unit(out, 0xDC00 + ((c - 0x10000) & 0x3FF));
  }
}

std::string number_text(double number) {
  if (std::isnan(number)) return "NaN";
  return std::isinf(number) ? (number < 0 ? "-Infinity" : "Infinity") : float_text(number);
}

class JsonWriter {
 public:
  JsonWriter(Budget& budget, const JsonStyle& style) : budget_(budget), style_(style) {}

  void write(const Value& value) {
    budget_.charge(1);
    if (const TrustedText* text = value.as_text()) {
      write_string(text->bytes());
    } else if (const List* list = value.as_list()) {
      write_list(*list, value);
    } else if (const Dict* dict = value.as_dict()) {
      write_dict(*dict);
    } else if (value.is_none()) {
      put("null");
    } else if (const bool* flag = value.as_bool()) {
      put(*flag ? "true" : "false");
    } else if (const std::int64_t* whole = value.as_integer()) {
      put(std::to_string(*whole));
    } else if (value.as_big() != nullptr) {
      put(to_text(budget_, value).bytes());
    } else if (const double* number = value.as_number()) {
      put(number_text(*number));
    } else {
      const Undefined* missing = value.as_undefined();
      const bool named = missing != nullptr && !missing->name.empty();
      fail_runtime(std::string{value.type_name()} + " cannot become JSON" + (named ? ": '" + std::string{missing->name} + "'" : ""));
    }
  }

  std::string take() { return out_.bytes(); }

 private:
  void put(std::string_view text) { out_.append_untrusted(text); }

  void write_string(std::string_view text) {
    budget_.charge_bytes(text.size());
    std::string escaped = "\"";
    for (std::size_t at = 0; at < text.size();) {
      const CodePoint c = decode_at(text, at);
      append_escaped(escaped, c.value, style_.ensure_ascii);
      at += c.bytes;
    }
    put(escaped += '"');
  }

  void new_line() {
    if (!style_.indent) return;
    put("\n");
    for (int i = 0; i < level_; ++i) put(*style_.indent);
  }

  void separate(bool& first) {
    if (!std::exchange(first, false)) put(style_.item_separator);
    new_line();
  }

  void write_list(const List& list, const Value& value) {
    if (list.form > ListForm::kTuple) fail_runtime("a " + std::string{value.type_name()} + " cannot become JSON; add |list before");
    if (list.items.empty()) return put("[]");
    put("["), ++level_;
    bool first = true;
    for (const Value& item : list.items) separate(first), write(item);
    --level_, new_line(), put("]");
  }

  void write_dict(const Dict& dict) {
    if (dict.entries().empty()) return put("{}");
    std::vector<const Dict::Entry*> order;
    for (const Dict::Entry& entry : dict.entries()) order.push_back(&entry);
    const auto by_key = [&](const Dict::Entry* a, const Dict::Entry* b) { return less(budget_, a->key, b->key); };
    if (style_.sort_keys) std::stable_sort(order.begin(), order.end(), by_key);
    put("{"), ++level_;
    bool first = true;
    for (const Dict::Entry* entry : order) {
      separate(first);
      write_key(entry->key);
      put(style_.key_separator);
      write(entry->value);
    }
    --level_, new_line(), put("}");
  }

  /// Keys are strings in JSON: those that are none become what they would be as values.
  void write_key(const Value& key) {
    if (const TrustedText* text = key.as_text()) return write_string(text->bytes());
    if (!is_number(key) && !key.is_none()) fail_runtime("a " + std::string{key.type_name()} + " cannot be a key in JSON");
    put("\""), write(key), put("\"");
  }

  Budget& budget_;
  const JsonStyle& style_;
  TrustedText out_;
  int level_ = 0;
};

}  // namespace

std::string to_json(Budget& budget, const Value& value, const JsonStyle& style) {
  JsonWriter writer{budget, style};
  writer.write(value);
  return writer.take();
}

}  // namespace kvpage::engine::chat

namespace kvpage::engine {
namespace {

using chat::Value;

/// Takes the events of a JSON text. Integers keep every digit.
class ValueBuilder final : public JsonEvents {
 public:
  bool null() override { return put(Value::none()); }
  bool boolean(bool value) override { return put(Value::boolean(value)); }
  bool number_integer(std::int64_t value) override { return put(Value::integer(value)); }
  bool number_unsigned(std::uint64_t value) override { return put(whole(std::to_string(value))); }
  bool number_float(double value, const std::string& text) override {
    return put(text.find_first_of(".eE") == std::string::npos ? whole(text) : Value::number(value));
  }
  bool string(std::string& value) override { return put(Value::text(value)); }
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
    if (!read_json(json, builder)) chat::fail(TemplateErrorKind::kSyntax, std::move(builder.fault.what));
    return builder.take();
  } catch (chat::TemplateFailure& failure) {
    return Unexpected{std::move(failure.error)};
  }
}

}  // namespace kvpage::engine
