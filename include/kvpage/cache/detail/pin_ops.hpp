/// \file pin, unpin, yield, expire: prefixes that stay although no sequence uses them. And reset, which ends them all.
#pragma once

#include <kvpage/cache/detail/pin_table.hpp>
#include <kvpage/cache/detail/publish_ops.hpp>

#include <tuple>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

template <class Core, class Fn>
void for_each_pinned(const Core& core, std::uint32_t node, std::uint32_t num_blocks, Fn&& fn) {
  for_each_needed(core.index, core.config, node, num_blocks, [&](std::uint32_t, std::uint32_t, std::int64_t, std::uint32_t b) {
    fn(b);
    return true;
  });
}

template <class Core>
CacheResult<PinId> pin_hit(Core& core, const PrefixHit& hit, std::uint8_t priority, std::int64_t expires_at_ns) {
  if (core.open()) return refuse(CacheRefusalKind::kBusy, 0, 1);
  if (hit.num_blocks == 0 || !hit_is_fresh(core, hit)) return refuse(CacheRefusalKind::kStaleHit, hit.num_tokens, 0);
  std::int64_t added = 0;
  std::uint32_t num_blocks = 0;  // 0 when every window ends with the hit: then there is nothing to hold, not even its node
  for_each_pinned(core, hit.node, hit.num_blocks, [&](std::uint32_t b) {
    added += core.pins.per_block[b] == 0 ? 1 : 0;
    num_blocks = hit.num_blocks;
  });
  const std::int64_t limit = core.pool.num_blocks() / 2;
  if (core.pins.num_blocks + added > limit) return refuse(CacheRefusalKind::kPinLimit, core.pins.num_blocks + added, limit);
  std::uint32_t slot = 0;
  while (slot < core.pins.pins.size() && core.pins.pins[slot].alive) ++slot;
  if (slot == core.pins.pins.size()) return refuse(CacheRefusalKind::kPinLimit, slot + 1, slot);
  Pin& pin = core.pins.pins[slot];
  pin = {.expires_at_ns = expires_at_ns, .serial = core.pins.next_serial++, .node = hit.node, .num_blocks = num_blocks,
         .generation = pin.generation + 1, .priority = priority, .alive = true};
  for_each_pinned(core, hit.node, hit.num_blocks, [&](std::uint32_t b) {
    core.acquire_for_good(b);
    if (core.pins.per_block[b]++ == 0) ++core.pins.num_blocks;
  });
  if constexpr (Core::kEvents) {
    core.events.on_event({.kind = CacheEventKind::kPin, .content_key = core.index.tree()[hit.node].key.lo,
                          .num_tokens = hit.num_blocks * core.config.block_size});
  }
  return PinId{slot, pin.generation};
}

template <class Core>
void end_pin(Core& core, Pin& pin) {
  pin.alive = false;
  for_each_pinned(core, pin.node, pin.num_blocks, [&](std::uint32_t b) {
    if (--core.pins.per_block[b] == 0) --core.pins.num_blocks;
    core.drop_for_good(b);
  });
  if constexpr (Core::kEvents) {
    core.events.on_event({.kind = CacheEventKind::kUnpin, .content_key = core.index.tree()[pin.node].key.lo,
                          .num_tokens = pin.num_blocks * core.config.block_size});
  }
}

template <class Core>
CacheResult<void> unpin(Core& core, PinId id) {
  if (core.open()) return refuse(CacheRefusalKind::kBusy, 0, 1);
  if (!core.pins.alive(id)) return refuse(CacheRefusalKind::kNotHeld, 1, 0);
  end_pin(core, core.pins.pins[id.slot]);
  return {};
}

/// Ends pins, least priority first, oldest first among equals, until `num_blocks` are available or no pin is left.
template <class Core>
CacheResult<std::int64_t> yield_pins(Core& core, std::int64_t num_blocks) {
  if (core.open()) return refuse(CacheRefusalKind::kBusy, 0, 1);
  std::int64_t ended = 0;
  while (core.pool.available() < num_blocks) {
    Pin* least = nullptr;
    for (Pin& pin : core.pins.pins) {
      if (!pin.alive) continue;
      if (least == nullptr || std::tie(pin.priority, pin.serial) < std::tie(least->priority, least->serial)) least = &pin;
    }
    if (least == nullptr) break;
    end_pin(core, *least);
    ++ended;
  }
  return ended;
}

template <class Core>
CacheResult<void> expire(Core& core, std::int64_t now_ns) {
  if (core.open()) return refuse(CacheRefusalKind::kBusy, 0, 1);
  for (Pin& pin : core.pins.pins) {
    if (pin.alive && pin.expires_at_ns != 0 && pin.expires_at_ns <= now_ns) end_pin(core, pin);
  }
  core.pool.policy().expire(now_ns);
  return {};
}

template <class Core>
CacheResult<void> reset_index(Core& core, bool detach) {
  if (core.open()) return refuse(CacheRefusalKind::kBusy, 0, 1);
  std::int64_t holders = core.rows.num_live() + core.steps.size();
  for (const Pin& pin : core.pins.pins) holders += pin.alive ? 1 : 0;
  if (!detach && holders > 0) return refuse(CacheRefusalKind::kBusy, 0, holders);
  for (Pin& pin : core.pins.pins) {
    if (pin.alive) end_pin(core, pin);
  }
  detach_everything(core);
  ++core.epoch;
  if constexpr (Core::kEvents) core.events.on_event({.kind = CacheEventKind::kReset});
  return {};
}

}  // namespace detail
KVPAGE_END_NAMESPACE
