/// \file TemplateError: why a chat template does not compile or render, and on which line.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace kvpage::engine {

enum class TemplateErrorKind : std::uint8_t {
  kSyntax,       ///< not a well-formed template
  kUnsupported,  ///< valid Jinja that lies outside of the subset
  kLimit,        ///< a cap of chat/limits.hpp was reached
  kRuntime,      ///< an operation on values that it is not defined for
  kRaised,       ///< the template itself refused these messages (raise_exception)
};

struct TemplateError {
  TemplateErrorKind kind = TemplateErrorKind::kSyntax;
  int line = 0;         ///< 1-based line of the template; 0 = not about a place in it
  std::string message;  ///< one sentence, without the line

  /// "chat template, line N: message".
  std::string text() const {
    return line > 0 ? "chat template, line " + std::to_string(line) + ": " + message : "chat template: " + message;
  }
};

namespace chat {
/// How a TemplateError travels inside the engine; ChatTemplate turns it into a value at its boundary.
/// Line 0 is filled in by the innermost node that the failure passes.
struct TemplateFailure {
  TemplateError error;
};

[[noreturn]] inline void fail(TemplateErrorKind kind, std::string message, int line = 0) {
  throw TemplateFailure{TemplateError{kind, line, std::move(message)}};
}
[[noreturn]] inline void fail_runtime(std::string message) { fail(TemplateErrorKind::kRuntime, std::move(message)); }
}  // namespace chat

}  // namespace kvpage::engine
