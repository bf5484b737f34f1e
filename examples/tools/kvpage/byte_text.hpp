/// \file byte_text: a number of bytes as people read it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace kvpage::cli {

/// "123.4 MiB" below 10 GiB, otherwise "12.34 GiB".
inline std::string byte_text(std::int64_t bytes) {
  constexpr double kMebibyte = 1024.0 * 1024.0;
  const double mebibytes = static_cast<double>(bytes) / kMebibyte;
  char text[32];
  if (mebibytes < 10.0 * 1024.0) std::snprintf(text, sizeof text, "%.1f MiB", mebibytes);
  else std::snprintf(text, sizeof text, "%.2f GiB", mebibytes / 1024.0);
  return text;
}

}  // namespace kvpage::cli
