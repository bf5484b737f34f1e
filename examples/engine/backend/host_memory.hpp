/// \file HostMemory: the memory half of a backend whose buffers are ordinary memory.
#pragma once

#include "engine/backend/mapped_memory.hpp"

#include <cstddef>
#include <cstring>
#include <span>

namespace kvpage::engine {

/// A base of backends that compute on the host.
class HostMemory {
 public:
  static constexpr bool kHostMemory = true;
  using Buffer = MappedMemory;

  static Buffer allocate(std::int64_t bytes) { return MappedMemory(bytes); }
  static void upload(std::byte* to, std::span<const std::byte> bytes) {
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  }
  static void download(const std::byte* from, std::span<std::byte> bytes) {
    if (!bytes.empty()) std::memcpy(bytes.data(), from, bytes.size());
  }
};

}  // namespace kvpage::engine
