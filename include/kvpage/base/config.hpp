/// \file Compiler facts, host/device annotations and the versioned namespace.
#pragma once

#include <kvpage/base/version.hpp>

#if defined(__FAST_MATH__) && !defined(KVPAGE_ALLOW_FAST_MATH)
#error "kvpage: -ffast-math breaks NaN handling and batch invariance; define KVPAGE_ALLOW_FAST_MATH to give both up"
#endif

/// Assertion level: 0 = none, 1 = cheap contract checks (default), 2 = whole-state checks.
/// It changes inline bodies, so it is part of the ABI tag below.
#ifndef KVPAGE_ASSERT_LEVEL
#define KVPAGE_ASSERT_LEVEL 1
#endif

#define KVPAGE_DETAIL_CONCAT(a, b) a##b
#define KVPAGE_DETAIL_ABI(minor, level) KVPAGE_DETAIL_ABI2(minor, level)
#define KVPAGE_DETAIL_ABI2(minor, level) v0_##minor##_a##level
#define KVPAGE_ABI KVPAGE_DETAIL_ABI(KVPAGE_VERSION_MINOR, KVPAGE_ASSERT_LEVEL)

/// Opens / closes `namespace kvpage` with its ABI tag, so that two versions can live in one program.
#define KVPAGE_BEGIN_NAMESPACE namespace kvpage { inline namespace KVPAGE_ABI {
#define KVPAGE_END_NAMESPACE } }

#if defined(__CUDACC__)
#define KVPAGE_HD __host__ __device__
#define KVPAGE_DEVICE __device__
#define KVPAGE_KERNEL __global__
#else
#define KVPAGE_HD
#define KVPAGE_DEVICE
#define KVPAGE_KERNEL
#endif

#if defined(__cpp_exceptions)
#define KVPAGE_HAS_EXCEPTIONS 1
#else
#define KVPAGE_HAS_EXCEPTIONS 0
#endif
