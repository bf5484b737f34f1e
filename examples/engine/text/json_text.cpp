#include "engine/text/json_text.hpp"

#include "engine/text/utf8.hpp"

#include <cstddef>
#include <cstdio>
#include <utility>
#include <vector>

namespace kvpage::engine {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostShownBytes = 40;
constexpr std::size_t kMostFaultBytes = 200;

std::string shortened(std::string text, std::size_t most) {
  if (text.size() > most) text.replace(most, std::string::npos, "...");
  return text;
}

/// Builds the value of a text. nlohmann's own builder keeps the last of equal keys, and of a number what a double holds.
class Builder final : public JsonEvents {
 public:
  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& text) override {
    if (text.find_first_not_of("-0123456789") != string_t::npos) return add(value);
    return add(Json::binary(Json::binary_t::container_type(text.begin(), text.end())));
  }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool key(string_t& name) override {
    if (open_.back()->contains(name)) {
      fault = {"the key " + shown(name) + " is there twice"};
      return false;
    }
    key_ = std::move(name);
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }

  Json root;

 private:
  Json& place(Json value) {
    if (open_.empty()) return root = std::move(value);
    Json& parent = *open_.back();
    if (parent.is_object()) return parent[key_] = std::move(value);
    parent.push_back(std::move(value));
    return parent.back();
  }
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    open_.push_back(&place(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::vector<Json*> open_;  // lists and objects that have not ended
  std::string key_;
};

/// Text of any bytes as JSON writes it in ASCII.
std::string dumped(const Json& value) { return value.dump(-1, ' ', true, Json::error_handler_t::replace); }

}  // namespace

std::optional<std::int64_t> json_integer(const Json& value, std::int64_t least, std::int64_t most) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() >> 63 != 0) return std::nullopt;
  const auto number = value.get<std::int64_t>();
  return number >= least && number <= most ? std::optional(number) : std::nullopt;
}

std::string invalid_utf8(std::string_view text) {
  const std::size_t at = find_invalid_utf8(text);
  if (at == std::string_view::npos) return {};
  char byte[8];
  std::snprintf(byte, sizeof byte, "0x%02x", static_cast<unsigned>(static_cast<unsigned char>(text[at])));
  return "byte " + std::to_string(at + 1) + " (" + byte + ") is not UTF-8";
}

bool JsonEvents::parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) {
  const std::string all = error.what();
  const std::size_t place = all.find(": ");  // "[json.exception..] parse error at line 1, column 2: syntax error ..."
  const std::string what = place == std::string::npos ? all : all.substr(place + 2);
  fault = {"parse error at byte " + std::to_string(position) + ": " + shortened(what, kMostFaultBytes)};
  return false;
}

bool read_json(std::string_view text, JsonEvents& events) {
  if (std::string wrong = invalid_utf8(text); !wrong.empty()) return events.fault = {std::move(wrong)}, false;
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {  // where nlohmann's lexer sees the end of the text
    return events.fault = {"byte " + std::to_string(nul + 1) + " (0x00) is no JSON"}, false;
  }
  return Json::sax_parse(text.begin(), text.end(), &events);
}

Expected<Json, JsonFault> parse_json(std::string_view text) {
  Builder builder;
  if (!read_json(text, builder)) return Unexpected{std::move(builder.fault)};
  return std::move(builder.root);
}

std::string shown(const Json& value) {
  // By size: a value from a file may nest as deep as the file is long, and dump() calls itself once per level.
  if (value.is_array() && !value.empty()) return "an array of " + std::to_string(value.size());
  if (value.is_object() && !value.empty()) return "an object of " + std::to_string(value.size());
  if (!value.is_binary()) return shortened(dumped(value), kMostShownBytes);
  const auto& digits = value.get_binary();
  return shortened(std::string(digits.begin(), digits.end()), kMostShownBytes);
}

}  // namespace kvpage::engine
