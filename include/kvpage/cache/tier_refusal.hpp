/// \file TierRefusal: why an operation of a host tier did not happen, with the two numbers that decided.
#pragma once

#include <kvpage/base/expected.hpp>

#include <cstdint>

KVPAGE_BEGIN_NAMESPACE

/// The rule that a refused tier operation met, or how a transfer ended.
enum class TierRefusalKind : std::uint8_t {
  kNoFreeSlot,   ///< every slot is in flight; need = 1, available = 0
  kInFlight,     ///< the slot is reserved or held; need = 0, available = its holders
  kNotReserved,  ///< the slot is not reserved for a demotion; need = its number, available = slots
  kNotHeld,      ///< the slot is not held for a promotion, or stores nothing; need = its number, available = slots
  kBadContent,   ///< not a full block with a portable key; need = tokens of a block, available = tokens given
  kBadPage,      ///< need = bytes of a page, available = bytes given
  kTableFull,    ///< too many keys that start alike; need = probes for a free place, available = the limit
  kStoreFailed,  ///< the store could not read or write; need = bytes, available = 0
  kCorrupt,      ///< the page is not what was stored: its checksum differs
};

/// Why it did not happen.
struct TierRefusal {
  TierRefusalKind kind{};
  std::int64_t need = 0;
  std::int64_t available = 0;
  friend constexpr bool operator==(const TierRefusal&, const TierRefusal&) = default;
};

/// One sentence for people; static storage.
[[nodiscard]] constexpr const char* describe(TierRefusalKind kind) noexcept {
  switch (kind) {
    case TierRefusalKind::kNoFreeSlot: return "every slot of the host tier is in flight";
    case TierRefusalKind::kInFlight: return "the slot of the host tier is in flight: end its transfers first";
    case TierRefusalKind::kNotReserved: return "the slot of the host tier is not reserved for a demotion";
    case TierRefusalKind::kNotHeld: return "the slot of the host tier is not held for a promotion, or stores nothing";
    case TierRefusalKind::kBadContent: return "only full blocks with a portable key go to the host tier";
    case TierRefusalKind::kBadPage: return "the page has not the size of the tier's pages";
    case TierRefusalKind::kTableFull: return "too many keys of the host tier start alike";
    case TierRefusalKind::kStoreFailed: return "the store of the host tier could not read or write";
    case TierRefusalKind::kCorrupt: return "the page in the host tier is not what was stored there";
  }
  return "unknown refusal";
}

/// Result of every tier operation that can be refused.
template <class T>
using TierResult = Expected<T, TierRefusal>;

KVPAGE_END_NAMESPACE
