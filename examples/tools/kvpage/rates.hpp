/// \file Quotients of reports: nothing where there is nothing to divide by, which text leaves out and JSON calls null.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

namespace kvpage::cli {

/// Per second.
inline std::optional<double> rate(std::int64_t count, double seconds) {
  return seconds > 0 ? std::optional(static_cast<double>(count) / seconds) : std::nullopt;
}

inline std::optional<double> share(std::optional<double> part, std::int64_t whole) {
  return part && whole > 0 ? std::optional(*part / static_cast<double>(whole)) : std::nullopt;
}

/// A figure for JSON: a number, or null.
template <class Json>
Json or_null(std::optional<double> figure) {
  return figure && std::isfinite(*figure) ? Json(*figure) : Json(nullptr);
}

/// A figure in a column of text: `format` has one double; "-" of the same width stands for a figure that there is not.
inline std::string figure_text(const char* format, int width, std::optional<double> figure) {
  char text[64];
  if (figure) std::snprintf(text, sizeof text, format, *figure);
  else std::snprintf(text, sizeof text, "%*s", width, "-");
  return text;
}

/// JSON has no infinities: the smallest log-probability stands for probability 0.
template <class T>
double finite_logprob(T logprob) {
  return std::max(static_cast<double>(logprob), -9999.0);
}

}  // namespace kvpage::cli
