/// \file CacheGroups: which layers share block tables and pages, so that layers with a sliding window can let go of old pages.
#pragma once

#include "engine/model/model_spec.hpp"

#include <kvpage/cache/block_allocator_config.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace kvpage::engine {

/// Where a layer keeps its keys and values: a table of the sequence, and a place in that table's pages.
struct LayerPlace {
  std::int64_t group = 0;
  std::int64_t layer_in_page = 0;
  friend bool operator==(const LayerPlace&, const LayerPlace&) = default;
};

/// A partition of a model's layers into groups of equal pages. All groups live in one pool.
struct CacheGroups {
  std::int64_t layers_per_page = 0;
  std::vector<std::int64_t> window_tokens;  // [num_groups], 0 = full attention
  std::vector<LayerPlace> places;           // [num_layers]

  [[nodiscard]] std::int64_t num_groups() const noexcept { return static_cast<std::int64_t>(window_tokens.size()); }
  [[nodiscard]] bool has_window() const noexcept;
  /// Share of a page set that no layer uses, in [0, 1).
  [[nodiscard]] double padding() const noexcept;
};

/// The partition with the fewest layers' worth of pages per block of tokens (groups x layers per page), among those of at most
/// kMaxCacheGroups groups whose layers all have one window; the fewest groups among equals. A window that no sequence outgrows
/// (context_tokens <= window) counts as none. `layer_windows` [num_layers], 0 = full attention.
/// Errors: ConfigError for more than kMaxCacheGroups different windows.
CacheGroups make_cache_groups(std::span<const std::int64_t> layer_windows, std::int64_t context_tokens);

/// The same for a model.
CacheGroups make_cache_groups(const ModelSpec& spec, std::int64_t context_tokens);

}  // namespace kvpage::engine
