/// \file The words for cache events in traces.
#pragma once

#include <kvpage/cache/cache_events.hpp>

#include <array>
#include <optional>
#include <string_view>

namespace kvpage::engine {

/// Indexed by CacheEventKind.
inline constexpr std::array<std::string_view, 19> kEventNames{
    "alloc", "share", "unshare", "free", "copy", "start", "end",  "hit",    "publish", "adopt",
    "hide",  "evict", "pin",     "unpin", "reset", "seal", "commit", "retire", "abort"};
static_assert(kEventNames.size() == static_cast<std::size_t>(CacheEventKind::kAbort) + 1);

constexpr std::string_view name_of(CacheEventKind kind) { return kEventNames[static_cast<std::size_t>(kind)]; }

constexpr std::optional<CacheEventKind> event_kind(std::string_view name) {
  for (std::size_t i = 0; i < kEventNames.size(); ++i) {
    if (kEventNames[i] == name) return static_cast<CacheEventKind>(i);
  }
  return std::nullopt;
}

}  // namespace kvpage::engine
