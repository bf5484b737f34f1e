/// \file draw_entropy: random words of the operating system, for secrets and seeds that nobody chose.
#pragma once

#include <kvpage/base/error.hpp>

#include <unistd.h>  // declares getentropy: <random> has std::random_device, but takes much longer to compile
#if defined(__APPLE__)
#include <sys/random.h>
#endif

KVPAGE_BEGIN_NAMESPACE

/// 64 bits that nobody can guess, other ones at every call. Errors: ConfigError where the system gives none.
[[nodiscard]] inline std::uint64_t draw_entropy() {
  std::uint64_t word = 0;
  if (::getentropy(&word, sizeof word) != 0) {
    throw_config_error("the system gives no random numbers: pass a secret or a seed of your own", 0, sizeof word, "bytes");
  }
  return word;
}

KVPAGE_END_NAMESPACE
