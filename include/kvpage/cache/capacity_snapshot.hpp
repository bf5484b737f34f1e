/// \file CapacitySnapshot: the counters of the block pool at one moment, as a plain copy.
#pragma once

#include <kvpage/base/config.hpp>

#include <cstdint>

KVPAGE_BEGIN_NAMESPACE

/// Counters of the pool. Ensures: clean + cached + used + pending == num_blocks.
struct CapacitySnapshot {
  std::int64_t num_blocks = 0;
  std::int64_t clean = 0;    ///< unreferenced, content worthless
  std::int64_t cached = 0;   ///< unreferenced, indexed: a hit until reused
  std::int64_t used = 0;     ///< referenced
  std::int64_t pending = 0;  ///< unreferenced, but a step in flight may still read it
  std::int64_t pinned = 0;   ///< blocks held by pins (part of used)
  std::int64_t num_seqs = 0;
  std::uint64_t epoch = 0;  ///< grows by one with each reset

  /// Blocks that the next grow may take. A block that is hit is not counted as free too.
  [[nodiscard]] constexpr std::int64_t available() const noexcept { return clean + cached; }
  /// used / num_blocks, in [0, 1].
  [[nodiscard]] constexpr double utilisation() const noexcept {
    return static_cast<double>(used) / static_cast<double>(num_blocks);
  }
  friend constexpr bool operator==(const CapacitySnapshot&, const CapacitySnapshot&) = default;
};

KVPAGE_END_NAMESPACE
