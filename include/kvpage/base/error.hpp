/// \file ConfigError (bad configuration, thrown by constructors) and Status (what kernel launchers return).
#pragma once

#include <kvpage/base/assert.hpp>

#include <cstdint>
#include <exception>

KVPAGE_BEGIN_NAMESPACE

/// A configuration that cannot work: which value, what limit it breaks, in what unit. Thrown by what sets things up, never by a launch.
class ConfigError : public std::exception {
 public:
  /// Requires: `what` has static storage duration (a sentence naming the field and the rule).
  ConfigError(const char* what, std::int64_t value, std::int64_t limit, const char* unit) noexcept
      : what_(what), unit_(unit), value_(value), limit_(limit) {}

  const char* what() const noexcept override { return what_; }
  std::int64_t value() const noexcept { return value_; }
  std::int64_t limit() const noexcept { return limit_; }
  const char* unit() const noexcept { return unit_; }

 private:
  const char* what_;
  const char* unit_;
  std::int64_t value_;
  std::int64_t limit_;
};

/// Throws ConfigError; without exceptions the assert handler gets its sentence.
[[noreturn]] inline void throw_config_error(const char* what, std::int64_t value, std::int64_t limit, const char* unit) {
#if KVPAGE_HAS_EXCEPTIONS
  throw ConfigError(what, value, limit, unit);
#else
  static_cast<void>(value), static_cast<void>(limit), static_cast<void>(unit);
  detail::assert_failed(AssertInfo{"valid configuration", what, __FILE__, __LINE__});
#endif
}

/// Class of a failed launch.
enum class StatusCode : std::uint8_t {
  kOk,
  kInvalidArgument,  ///< a shape, pointer, id or length that breaks the contract of the args struct
  kUnsupported,      ///< a valid problem that this kernel cannot run; the message says why
  kCapacity,         ///< caller-provided memory is too small; value = needed, limit = given
  kDeviceError,      ///< the device runtime failed
  kOutOfMemory,      ///< the machine gave no memory for what the caller asked for
};

/// Outcome of a kernel launch. Never allocates; `message` has static storage duration.
class [[nodiscard]] Status {
 public:
  constexpr Status() = default;
  constexpr Status(StatusCode code, const char* message, std::int64_t value = 0, std::int64_t limit = 0) noexcept
      : message_(message), value_(value), limit_(limit), code_(code) {}

  constexpr bool ok() const noexcept { return code_ == StatusCode::kOk; }
  constexpr StatusCode code() const noexcept { return code_; }
  constexpr const char* message() const noexcept { return message_; }
  /// The offending number, and what it was measured against.
  constexpr std::int64_t value() const noexcept { return value_; }
  constexpr std::int64_t limit() const noexcept { return limit_; }

 private:
  const char* message_ = "ok";
  std::int64_t value_ = 0;
  std::int64_t limit_ = 0;
  StatusCode code_ = StatusCode::kOk;
};

KVPAGE_END_NAMESPACE
