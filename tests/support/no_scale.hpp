/// \file Numbers that no scale, cap or epsilon of a launch may be.
#pragma once

#include <limits>

namespace kvpage_test {

/// Each of them makes a result that is NaN, or the same for every input, and nothing after it would notice.
inline constexpr float kNoScale[] = {0.0f, -1.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                                     -std::numeric_limits<float>::infinity()};

}  // namespace kvpage_test
