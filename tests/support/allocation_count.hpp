/// \file Counts what operator new hands out in this program, to hold the loader to its memory promise.
#pragma once

#include <cstddef>

namespace kvpage_test {

/// Sum of all bytes requested from operator new since the program began.
std::size_t allocated_bytes() noexcept;

}  // namespace kvpage_test
