/// \file Failure: why a verb stops, with the exit code that scripts see.
#pragma once

#include "tools/kvpage/options.hpp"

#include <stdexcept>
#include <string>

namespace kvpage::cli {

/// Thrown by verbs, caught once in main.
class Failure : public std::runtime_error {
 public:
  Failure(ExitCode exit_code, const std::string& message) : std::runtime_error(message), exit_code_(exit_code) {}
  ExitCode exit_code() const noexcept { return exit_code_; }

 private:
  ExitCode exit_code_;
};

}  // namespace kvpage::cli
