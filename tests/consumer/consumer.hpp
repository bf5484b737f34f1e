/// \file What the two units of the consumer program share.
#pragma once

#include <cstddef>

/// The number of precisions, counted in other_unit.cpp (which may live in a shared library).
std::size_t precisions_seen_by_the_other_unit();
