/// \file Quotients of reports: 0 where there is nothing to divide by.
#pragma once

#include <cstdint>

namespace kvpage::cli {

/// Per second.
inline double rate(std::int64_t count, double seconds) { return seconds > 0 ? static_cast<double>(count) / seconds : 0; }

inline double share(double part, std::int64_t whole) { return whole > 0 ? part / static_cast<double>(whole) : 0; }

}  // namespace kvpage::cli
