/// \file KVPAGE_ASSERT: broken invariants, reported through a handler that the program may replace.
#pragma once

#include <kvpage/base/config.hpp>

#include <cstdlib>

KVPAGE_BEGIN_NAMESPACE

/// What a failed assertion tells its handler.
struct AssertInfo {
  const char* expression;  ///< source text of the condition
  const char* message;     ///< one sentence: what must hold
  const char* file;
  int line;
};

/// Called when an invariant is broken. It may throw, terminate, or return (then the program aborts).
using AssertHandler = void (*)(const AssertInfo&);

namespace detail {
/// The one process-wide object of the library: a program has one answer to "what if an invariant breaks". Read and written by the
/// compiler's atomic operations: every header includes this one, and <atomic> would be most of what that costs.
inline AssertHandler assert_handler = nullptr;

[[noreturn]] inline void assert_failed(const AssertInfo& info) {
  if (const AssertHandler handler = __atomic_load_n(&assert_handler, __ATOMIC_ACQUIRE)) handler(info);
  std::abort();
}
}  // namespace detail

/// Installs `handler` (nullptr = abort) and returns the previous one. Threads: any.
inline AssertHandler set_assert_handler(AssertHandler handler) noexcept {
  return __atomic_exchange_n(&detail::assert_handler, handler, __ATOMIC_ACQ_REL);
}

KVPAGE_END_NAMESPACE

#define KVPAGE_DETAIL_CHECK(condition, message)                                                              \
  ((condition) ? static_cast<void>(0)                                                                        \
               : ::kvpage::detail::assert_failed(::kvpage::AssertInfo{#condition, message, __FILE__, __LINE__}))

/// KVPAGE_ASSERT(condition, "what must hold"): a cheap check of an invariant, on unless KVPAGE_ASSERT_LEVEL is 0.
#if KVPAGE_ASSERT_LEVEL >= 1 && !defined(__CUDA_ARCH__)
#define KVPAGE_ASSERT(condition, message) KVPAGE_DETAIL_CHECK(condition, message)
#else
#define KVPAGE_ASSERT(condition, message) static_cast<void>(0)
#endif

/// KVPAGE_ASSERT_SLOW: a check whose cost grows with the state; on only at KVPAGE_ASSERT_LEVEL 2.
#if KVPAGE_ASSERT_LEVEL >= 2 && !defined(__CUDA_ARCH__)
#define KVPAGE_ASSERT_SLOW(condition, message) KVPAGE_DETAIL_CHECK(condition, message)
#else
#define KVPAGE_ASSERT_SLOW(condition, message) static_cast<void>(0)
#endif
