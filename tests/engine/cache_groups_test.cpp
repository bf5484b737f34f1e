/// \file Which layers share pages: the partition with the least padding that four groups allow.
#include "engine/model/cache_groups.hpp"
#include "support/catch.hpp"

#include <kvpage/base/error.hpp>
#include <kvpage/kv/plan_bytes.hpp>

#include <set>

namespace kvpage_test {
namespace {

using kvpage::engine::CacheGroups;
using kvpage::engine::make_cache_groups;

/// `period` - 1 layers with a window, then one without, and so on.
std::vector<std::int64_t> windows(std::int64_t num_layers, std::int64_t period, std::int64_t window) {
  std::vector<std::int64_t> layers;
  for (std::int64_t i = 0; i < num_layers; ++i) layers.push_back((i + 1) % period == 0 ? 0 : window);
  return layers;
}

/// No two layers in one place, every layer in a group of its window.
void check_places(const CacheGroups& groups, const std::vector<std::int64_t>& layers, std::int64_t context) {
  REQUIRE(groups.places.size() == layers.size());
  std::set<std::pair<std::int64_t, std::int64_t>> taken;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto place = groups.places[i];
    CHECK(taken.emplace(place.group, place.layer_in_page).second);
    CHECK(place.layer_in_page < groups.layers_per_page);
    REQUIRE(place.group < groups.num_groups());
    CHECK(groups.window_tokens[static_cast<std::size_t>(place.group)] == (layers[i] < context ? layers[i] : 0));
  }
}

/// The least groups x layers per page over all numbers of groups per kind.
std::int64_t least_cost(std::int64_t num_full, std::int64_t num_window) {
  std::int64_t best = 1 << 20;
  for (std::int64_t full = num_full > 0 ? 1 : 0; full <= (num_full > 0 ? 4 : 0); ++full) {
    for (std::int64_t window = num_window > 0 ? 1 : 0; window <= (num_window > 0 ? 4 - full : 0); ++window) {
      const std::int64_t layers = std::max(full > 0 ? kvpage::ceil_div(num_full, full) : 0,
                                           window > 0 ? kvpage::ceil_div(num_window, window) : 0);
      best = std::min(best, (full + window) * layers);
    }
  }
  return best;
}

}  // namespace

TEST_CASE("engine.cache_groups.three_full_and_fifteen_window_layers", "[engine]") {
  const auto layers = windows(18, 6, 512);
  const CacheGroups groups = make_cache_groups(layers, 8192);
  CHECK(groups.layers_per_page == 5);
  CHECK(groups.window_tokens == std::vector<std::int64_t>{0, 512, 512, 512});
  CHECK(groups.padding() == Approx(0.1));
  CHECK(groups.has_window());
  check_places(groups, layers, 8192);
  const kvpage::KVDemand demand{.context_tokens = 8192, .step_tokens = 512};
  CHECK(kvpage::blocks_per_seq(groups.window_tokens, 32, demand) == 256 + 3 * 33);
}

TEST_CASE("engine.cache_groups.a_window_that_nobody_outgrows_is_none", "[engine]") {
  for (const std::int64_t context : {100, 512}) {
    const CacheGroups groups = make_cache_groups(windows(18, 6, 512), context);
    CHECK(groups.layers_per_page == 18);
    CHECK(groups.window_tokens == std::vector<std::int64_t>{0});
    CHECK(groups.padding() == 0);
    CHECK_FALSE(groups.has_window());
    CHECK(groups.places[17] == kvpage::engine::LayerPlace{0, 17});
  }
  CHECK(make_cache_groups(windows(18, 6, 512), 513).num_groups() == 4);
  CHECK(make_cache_groups(std::vector<std::int64_t>(7, 0), 1 << 20).num_groups() == 1);
  CHECK(make_cache_groups(std::vector<std::int64_t>(8, 64), 128).window_tokens == std::vector<std::int64_t>{64});
}

TEST_CASE("engine.cache_groups.no_partition_is_cheaper", "[engine]") {
  for (std::int64_t num_full = 0; num_full <= 12; ++num_full) {
    for (std::int64_t num_window = num_full == 0 ? 1 : 0; num_window <= 40; ++num_window) {
      std::vector<std::int64_t> layers(static_cast<std::size_t>(num_window), 16);
      layers.insert(layers.begin() + num_window / 2, static_cast<std::size_t>(num_full), 0);
      const CacheGroups groups = make_cache_groups(layers, 100);
      INFO(num_full << " full, " << num_window << " with a window");
      CHECK(groups.num_groups() <= 4);
      CHECK(groups.num_groups() * groups.layers_per_page == least_cost(num_full, num_window));
      check_places(groups, layers, 100);
    }
  }
}

TEST_CASE("engine.cache_groups.five_different_windows_are_refused", "[engine]") {
  CHECK(make_cache_groups(std::vector<std::int64_t>{0, 1, 2, 3}, 10).num_groups() == 4);
  CHECK_THROWS_AS(make_cache_groups(std::vector<std::int64_t>{0, 1, 2, 3, 4}, 10), kvpage::ConfigError);
}

}  // namespace kvpage_test
