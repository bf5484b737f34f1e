/// \file FloatEnvironment: round to nearest, subnormals kept, for the life of a scope.
#pragma once

#include <kvpage/base/config.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Sets the rounding mode to nearest and switches flush-to-zero off; the destructor restores what was there.
/// A caller's own settings would otherwise change the bits of every result.
class FloatEnvironment {
 public:
#if defined(__x86_64__)
  FloatEnvironment() noexcept : saved_(__builtin_ia32_stmxcsr()) { __builtin_ia32_ldmxcsr(kDefault); }
  ~FloatEnvironment() { __builtin_ia32_ldmxcsr(saved_); }
#else
  FloatEnvironment() noexcept {}
  ~FloatEnvironment() {}
#endif
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr unsigned kDefault = 0x1f80;  // all exceptions masked, nearest, no flush to zero
  unsigned saved_;
#endif
};

KVPAGE_END_NAMESPACE
