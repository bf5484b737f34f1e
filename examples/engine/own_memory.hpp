/// \file own_memory_bytes: what this process takes of memory that nobody else has.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace kvpage::engine {

/// Bytes of anonymous pages of this process, those that were swapped out included: heap, stacks, weights, pages of the KV pool. Not pages
/// of files: how many of them are resident is up to the system, which keeps them for all processes and takes them back when memory is
/// short. Counted page by page. Empty if the system does not say. `proc`: where the system tells of itself.
std::optional<std::int64_t> own_memory_bytes(const std::string& proc = "/proc");

}  // namespace kvpage::engine
