/// \file available_memory_bytes: what this process may still use.
#pragma once

#include "engine/backend/cgroup.hpp"

#include <cstdint>

namespace kvpage::engine {

/// The least that the system and the cgroups of this process can still give; the largest number there is if none of them says.
/// A cgroup gives its limit minus its use, where pages of files do not count: they are taken back when memory is asked for.
std::int64_t available_memory_bytes(const SystemRoots& roots = {});

}  // namespace kvpage::engine
