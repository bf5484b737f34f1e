#include "tools/kvpage/typed_options.hpp"

#include "engine/text/json_text.hpp"
#include "engine/text/number_text.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

namespace kvpage::cli {
namespace {

/// Takes a text; false = it is none of the wanted.
using Reader = std::function<bool(const std::string& text)>;

[[noreturn]] void refuse(const std::string& name, const std::string& wanted, const std::string& text) {
  throw CLI::ValidationError(name + " must be " + wanted + ", not " + engine::shown(text));
}

CLI::Option* add_read(CLI::App& app, const std::string& name, const std::string& type, const std::string& wanted, const std::string& help,
                      Reader read) {
  const auto use = [name, wanted, read = std::move(read)](const CLI::results_t& texts) {
    if (!read(texts.front())) refuse(name, wanted, texts.front());
    return true;
  };
  return app.add_option(name, use, help)->type_name(type);
}

std::string bounds_of(const IntegerRange& range) {
  return "[" + std::to_string(range.least) + ", " + std::to_string(range.most) + "]" + (range.or_zero ? " or 0" : "");
}

std::string wanted_of(const IntegerRange& range) {
  return (range.power_of_two ? "a power of two in " : "an integer in ") + bounds_of(range);
}

std::optional<std::int64_t> read_integer(std::string_view text, const IntegerRange& range) {
  const auto number = engine::parse_integer<std::int64_t>(text);
  if (number == 0 && range.or_zero) return number;
  if (!number || *number < range.least || *number > range.most) return std::nullopt;
  if (range.power_of_two && !std::has_single_bit(static_cast<std::uint64_t>(*number))) return std::nullopt;
  return number;
}

/// The parts of a text between commas, empty ones too.
std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',') parts.emplace_back();
    else parts.back() += c;
  }
  return parts;
}

/// `read` gets each part of a text with commas.
CLI::Option* add_list(CLI::App& app, const std::string& name, const std::string& type, const std::string& wanted, const std::string& help,
                      Reader read) {
  const auto use = [name, wanted, read = std::move(read)](const CLI::results_t& texts) {
    for (const std::string& part : split(texts.front())) {
      if (!read(part)) refuse("each element of " + name, wanted, part);
    }
    return true;
  };
  return app.add_option(name, use, help)->type_name(type);
}

}  // namespace

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : "|") + name;
  return text;
}

namespace detail {

CLI::Option* add_integer(CLI::App& app, const std::string& name, const IntegerRange& range, const std::string& help,
                         std::function<void(std::int64_t)> set) {
  return add_read(app, name, "INT in " + bounds_of(range), wanted_of(range), help, [range, set = std::move(set)](const std::string& text) {
    const auto number = read_integer(text, range);
    if (number) set(*number);
    return number.has_value();
  });
}

CLI::Option* add_seed(CLI::App& app, const std::string& name, const std::string& help, std::function<void(std::uint64_t)> set) {
  const std::string wanted = engine::integer_range(std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max());
  return add_read(app, name, "INT in [0, 2^64)", wanted, help, [set = std::move(set)](const std::string& text) {
    const auto number = engine::parse_integer<std::uint64_t>(text);
    if (number) set(*number);
    return number.has_value();
  });
}

CLI::Option* add_real(CLI::App& app, const std::string& name, double least, double most, const std::string& help,
                      std::function<void(double)> set) {
  const std::string wanted = engine::real_range(least, most);
  const std::string type = "FLOAT" + wanted.substr(wanted.find(" in "));
  return add_read(app, name, type, wanted, help, [least, most, set = std::move(set)](const std::string& text) {
    const auto number = engine::parse_real(text, least, most);
    if (number) set(*number);
    return number.has_value();
  });
}

CLI::Option* add_bytes(CLI::App& app, const std::string& name, std::int64_t least, const std::string& help,
                       std::function<void(std::int64_t)> set) {
  const std::string bounds = bounds_of({least, kMostBytes});
  const std::string wanted = "a number of bytes in the range " + bounds + ", with or without a unit, such as 512 or 64M";
  return add_read(app, name, "BYTES in " + bounds, wanted, help, [least, set = std::move(set)](const std::string& text) {
    const auto bytes = engine::parse_bytes(text, least, kMostBytes);
    if (bytes) set(*bytes);
    return bytes.has_value();
  });
}

std::string default_text(double value) { return engine::real_text(value); }

}  // namespace detail

CLI::Option* add_integers(CLI::App& app, const std::string& name, std::vector<std::int64_t>& values, const IntegerRange& range,
                          const std::string& help) {
  return add_list(app, name, "INT[,INT..] in " + bounds_of(range), wanted_of(range), help, [&values, range](const std::string& text) {
    const auto number = read_integer(text, range);
    if (number) values.push_back(*number);
    return number.has_value();
  });
}

CLI::Option* add_choice(CLI::App& app, const std::string& name, std::string& value, const std::vector<std::string>& names,
                        const std::string& help) {
  auto* option = add_read(app, name, join(names), "one of " + join(names), help, [&value, names](const std::string& text) {
    value = text;
    return std::find(names.begin(), names.end(), text) != names.end();
  });
  return value.empty() ? option : option->default_str(value);
}

CLI::Option* add_choices(CLI::App& app, const std::string& name, std::vector<std::string>& values, const std::vector<std::string>& names,
                         const std::string& help) {
  return add_list(app, name, join(names) + "[,..]", "one of " + join(names), help, [&values, names](const std::string& text) {
    values.push_back(text);
    return std::find(names.begin(), names.end(), text) != names.end();
  });
}

CLI::Option* add_texts(CLI::App& app, const std::string& name, const std::string& help,
                       std::function<std::string(const std::string& text)> read) {
  const auto use = [name, read = std::move(read)](const CLI::results_t& texts) {
    for (const std::string& text : texts) {
      if (const std::string wanted = read(text); !wanted.empty()) refuse(name, wanted, text);
    }
    return true;
  };
  // Not an option of many values: such a one takes all words that follow it, and "[x]" as a list of its own.
  return app.add_option(name, use, help)->type_name("TEXT")->take_all();
}

CLI::Option* add_switch(CLI::App& app, const std::string& name, bool& value, const std::string& help) {
  return app.add_flag(name, value, help)->disable_flag_override();
}

}  // namespace kvpage::cli
