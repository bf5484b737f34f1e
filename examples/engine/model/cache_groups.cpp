#include "engine/model/cache_groups.hpp"

#include <kvpage/base/error.hpp>

#include <algorithm>
#include <map>

namespace kvpage::engine {
namespace {

/// Layers by window, ascending: full attention first.
using LayersByWindow = std::map<std::int64_t, std::vector<std::int64_t>>;

std::int64_t groups_for(const LayersByWindow& kinds, std::int64_t layers_per_page) {
  std::int64_t groups = 0;
  for (const auto& [window, layers] : kinds) groups += ceil_div(static_cast<std::int64_t>(layers.size()), layers_per_page);
  return groups;
}

/// 0 when even whole kinds are too many groups.
std::int64_t best_layers_per_page(const LayersByWindow& kinds, std::int64_t num_layers) {
  std::int64_t best = 0;
  for (std::int64_t layers = 1; layers <= num_layers; ++layers) {
    const std::int64_t groups = groups_for(kinds, layers);
    if (groups > kMaxCacheGroups) continue;
    if (best == 0 || groups * layers <= groups_for(kinds, best) * best) best = layers;
  }
  return best;
}

}  // namespace

bool CacheGroups::has_window() const noexcept {
  return std::any_of(window_tokens.begin(), window_tokens.end(), [](std::int64_t window) { return window > 0; });
}

double CacheGroups::padding() const noexcept {
  return 1.0 - static_cast<double>(places.size()) / static_cast<double>(num_groups() * layers_per_page);
}

CacheGroups make_cache_groups(std::span<const std::int64_t> layer_windows, std::int64_t context_tokens) {
  const auto num_layers = static_cast<std::int64_t>(layer_windows.size());
  LayersByWindow kinds;
  for (std::int64_t layer = 0; layer < num_layers; ++layer) {
    const std::int64_t window = layer_windows[static_cast<std::size_t>(layer)];
    kinds[window < context_tokens ? window : 0].push_back(layer);
  }
  CacheGroups groups;
  groups.layers_per_page = best_layers_per_page(kinds, num_layers);
  if (groups.layers_per_page == 0) {
    throw_config_error("the layers have more different windows than there are cache groups", static_cast<std::int64_t>(kinds.size()),
                       kMaxCacheGroups, "windows");
  }
  groups.places.resize(layer_windows.size());
  for (const auto& [window, layers] : kinds) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const std::int64_t in_page = static_cast<std::int64_t>(i) % groups.layers_per_page;
      if (in_page == 0) groups.window_tokens.push_back(window);
      groups.places[static_cast<std::size_t>(layers[i])] = {groups.num_groups() - 1, in_page};
    }
  }
  return groups;
}

CacheGroups make_cache_groups(const ModelSpec& spec, std::int64_t context_tokens) {
  std::vector<std::int64_t> windows;
  for (std::int64_t layer = 0; layer < spec.num_layers; ++layer) windows.push_back(spec.layer_window_tokens(layer));
  return make_cache_groups(windows, context_tokens);
}

}  // namespace kvpage::engine
