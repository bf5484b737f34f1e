/// \file QuerySpan: the part of one sequence in a step, as the scheduler plans it and attention reads it.
#pragma once

#include <kvpage/base/config.hpp>

#include <cstdint>

KVPAGE_BEGIN_NAMESPACE

/// The rows of one sequence: q_begin .. q_begin + q_count - 1, at consecutive positions.
struct QuerySpan {
  std::int64_t q_begin = 0;    ///< first row of the step that belongs to it
  std::int64_t q_count = 0;    ///< rows
  std::int64_t first_pos = 0;  ///< position of row q_begin; negative positions see nothing
};

KVPAGE_END_NAMESPACE
