/// \file Options by the type of their value: each type is read in one way, and a bad value is refused by the option's name, what it may
/// hold and what it was given. All of it happens while the command line is parsed, before any file is opened.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace kvpage::cli {

/// "a|b|c".
std::string join(const std::vector<std::string>& names);

/// What an integer option may hold.
struct IntegerRange {
  std::int64_t least = 0;
  std::int64_t most = 0;
  bool or_zero = false;       ///< 0 too, which leaves the choice to the program
  bool power_of_two = false;  ///< nothing else
};

/// Longest context, prompt or answer that an option may ask for.
inline constexpr std::int64_t kMostTokens = std::int64_t{1} << 31;
/// Most bytes that an option may ask for.
inline constexpr std::int64_t kMostBytes = std::int64_t{1} << 62;

namespace detail {

CLI::Option* add_integer(CLI::App& app, const std::string& name, const IntegerRange& range, const std::string& help,
                         std::function<void(std::int64_t)> set);
CLI::Option* add_seed(CLI::App& app, const std::string& name, const std::string& help, std::function<void(std::uint64_t)> set);
CLI::Option* add_real(CLI::App& app, const std::string& name, double least, double most, const std::string& help,
                      std::function<void(double)> set);
CLI::Option* add_bytes(CLI::App& app, const std::string& name, std::int64_t least, const std::string& help,
                       std::function<void(std::int64_t)> set);
std::string default_text(double value);

/// Shows the value that there is without the option, if there is one.
template <class T>
CLI::Option* show_default(CLI::Option* option, const T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    return option->default_str(default_text(static_cast<double>(value)));
  } else if constexpr (std::is_integral_v<T>) {
    return option->default_str(std::to_string(value));
  } else {
    return option;
  }
}

}  // namespace detail

/// An integer. `value`, here and below: a number or an optional one, which outlives the app.
template <class T>
CLI::Option* add_integer(CLI::App& app, const std::string& name, T& value, const IntegerRange& range, const std::string& help) {
  const auto set = [&value](std::int64_t number) {
    if constexpr (std::is_integral_v<T>) value = static_cast<T>(number);
    else value = number;
  };
  return detail::show_default(detail::add_integer(app, name, range, help, set), value);
}

/// An integer of 64 bits without a sign.
template <class T>
CLI::Option* add_seed(CLI::App& app, const std::string& name, T& value, const std::string& help) {
  return detail::show_default(detail::add_seed(app, name, help, [&value](std::uint64_t number) { value = number; }), value);
}

/// A finite number in [least, most].
template <class T>
CLI::Option* add_real(CLI::App& app, const std::string& name, T& value, double least, double most, const std::string& help) {
  const auto set = [&value](double number) { value = static_cast<T>(number); };
  return detail::show_default(detail::add_real(app, name, least, most, help, set), value);
}

/// A number of bytes from `least` on, such as 512 or 64M.
template <class T>
CLI::Option* add_bytes(CLI::App& app, const std::string& name, T& value, std::int64_t least, const std::string& help) {
  return detail::show_default(detail::add_bytes(app, name, least, help, [&value](std::int64_t bytes) { value = bytes; }), value);
}

/// Integers with commas between them.
CLI::Option* add_integers(CLI::App& app, const std::string& name, std::vector<std::int64_t>& values, const IntegerRange& range,
                          const std::string& help);

/// One of `names`.
CLI::Option* add_choice(CLI::App& app, const std::string& name, std::string& value, const std::vector<std::string>& names,
                        const std::string& help);
/// Some of `names`, with commas between them.
CLI::Option* add_choices(CLI::App& app, const std::string& name, std::vector<std::string>& values, const std::vector<std::string>& names,
                         const std::string& help);

/// A text that may be given again. `read` takes one, or says what would have been right.
CLI::Option* add_texts(CLI::App& app, const std::string& name, const std::string& help,
                       std::function<std::string(const std::string& text)> read);

/// An option without a value.
CLI::Option* add_switch(CLI::App& app, const std::string& name, bool& value, const std::string& help);

}  // namespace kvpage::cli
