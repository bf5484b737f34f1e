/// \file PinTable: holds on prefixes, and how many of them each block has.
#pragma once

#include <kvpage/cache/block_ids.hpp>
#include <kvpage/cache/detail/arena.hpp>
#include <kvpage/cache/detail/block_records.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

struct Pin {
  std::int64_t expires_at_ns = 0;  ///< 0 = never
  std::uint64_t serial = 0;        ///< age: pins of one priority yield oldest first
  std::uint32_t node = kNoLink;
  std::uint32_t num_blocks = 0;
  std::uint32_t generation = 0;
  std::uint8_t priority = 0;
  bool alive = false;
};

struct PinTable {
  std::span<Pin> pins;
  std::span<std::uint32_t> per_block;  // [num_blocks]
  std::uint64_t next_serial = 0;
  std::int64_t num_blocks = 0;  ///< blocks with at least one pin

  void attach(Arena& arena, std::int64_t max_pins, std::int64_t blocks) {
    pins = arena.cut<Pin>(max_pins);
    per_block = arena.cut<std::uint32_t>(blocks);
  }
  [[nodiscard]] bool alive(PinId id) const noexcept {
    return id.slot < pins.size() && pins[id.slot].alive && pins[id.slot].generation == id.generation;
  }
};

}  // namespace detail
KVPAGE_END_NAMESPACE
