/// \file SimTrace: a seed and a list of actions as text, one action a line, so that a failing run can be kept, sent and replayed.
#pragma once

#include "tools/simulator/simulation.hpp"

#include <charconv>
#include <string>
#include <string_view>

KVPAGE_BEGIN_NAMESPACE

/// A run: the world of `seed`, and what happens in it.
struct SimTrace {
  std::uint64_t seed = 0;
  std::vector<SimAction> actions;
};

/// Where a text is no trace.
struct SimTraceError {
  const char* rule;
  std::int64_t line;
};

/// First line `kvpage-sim 1 SEED`, then `KIND A B` per action.
[[nodiscard]] inline std::string to_text(const SimTrace& trace) {
  std::string text = "kvpage-sim 1 " + std::to_string(trace.seed) + "\n";
  for (const SimAction& action : trace.actions) {
    text += std::string(name_of(action.kind)) + " " + std::to_string(action.a) + " " + std::to_string(action.b) + "\n";
  }
  return text;
}

namespace detail {
/// Takes the first word of a line off it.
[[nodiscard]] inline std::string_view take_word(std::string_view& line) noexcept {
  const std::size_t end = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(std::min(line.size(), end + 1));
  return word;
}

/// A whole word as a number.
template <class T>
[[nodiscard]] bool read_number(std::string_view word, T& number) noexcept {
  const auto result = std::from_chars(word.data(), word.data() + word.size(), number);
  return result.ec == std::errc{} && result.ptr == word.data() + word.size() && !word.empty();
}

[[nodiscard]] inline bool read_kind(std::string_view word, SimKind& kind) noexcept {
  for (std::size_t k = 0; k < kNumSimKinds; ++k) {
    kind = static_cast<SimKind>(k);
    if (word == name_of(kind)) return true;
  }
  return false;
}
}  // namespace detail

/// Reads what to_text writes. Errors: the first line that is not as it must be.
[[nodiscard]] inline Expected<SimTrace, SimTraceError> read_sim_trace(std::string_view text) {
  SimTrace trace;
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 1));
    if (number == 1) {
      const bool known = detail::take_word(line) == "kvpage-sim" && detail::take_word(line) == "1";
      if (!known || !detail::read_number(line, trace.seed)) return Unexpected{SimTraceError{"the first line is 'kvpage-sim 1 SEED'", 1}};
      continue;
    }
    SimAction action;
    const bool kind = detail::read_kind(detail::take_word(line), action.kind);
    if (!kind || !detail::read_number(detail::take_word(line), action.a) || !detail::read_number(line, action.b)) {
      return Unexpected{SimTraceError{"an action is 'KIND A B'", number}};
    }
    trace.actions.push_back(action);
  }
  if (trace.actions.empty()) return Unexpected{SimTraceError{"a trace has a first line and actions", 1}};
  return trace;
}

KVPAGE_END_NAMESPACE
