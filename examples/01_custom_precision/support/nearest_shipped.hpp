/// \file NearestWeightFormat and NearestKVFormat: the shipped format that differs least from a user's own.
#pragma once

#include <kvpage/kv/kv_formats.hpp>
#include <kvpage/quant/weight_formats.hpp>

#include <type_traits>

namespace own {

/// Differing bits weigh most, then another kind of scale or level, then another group.
template <class W, class Shipped>
constexpr int distance() {
  if constexpr (kvpage::PanelWeight<W> && kvpage::PanelWeight<Shipped>) {
    constexpr kvpage::PanelShape kOwn = W::kPanel, kOther = Shipped::kPanel;
    const auto gap = [](int a, int b) { return a > b ? a - b : b - a; };
    const int kinds = int{kOwn.scale != kOther.scale} + int{kOwn.has_minimum != kOther.has_minimum} +
                      int{kOwn.has_levels != kOther.has_levels};
    return 10'000 * gap(kOwn.code_bits, kOther.code_bits) + 1'000 * kinds + gap(kOwn.group, kOther.group);
  } else if constexpr (kvpage::KVFormat<W> && kvpage::KVFormat<Shipped>) {
    const auto gap = [](int a, int b) { return a > b ? a - b : b - a; };
    return 10 * gap(W::Key::kBits, Shipped::Key::kBits) + 10 * gap(W::Value::kBits, Shipped::Value::kBits) +
           gap(W::Key::kDotDims, Shipped::Key::kDotDims);
  } else {
    return 1'000'000;
  }
}

template <class Own, class Best, class... Rest>
struct Nearest {
  using Type = Best;
};
template <class Own, class Best, class Next, class... Rest>
struct Nearest<Own, Best, Next, Rest...>
    : Nearest<Own, std::conditional_t<(distance<Own, Next>() < distance<Own, Best>()), Next, Best>, Rest...> {};

template <class Own, class... Shipped>
typename Nearest<Own, Shipped...>::Type nearest_of(kvpage::TypeList<Shipped...>);

template <kvpage::PanelWeight W>
using NearestWeightFormat = decltype(nearest_of<W>(kvpage::WeightFormats{}));
template <kvpage::KVFormat F>
using NearestKVFormat = decltype(nearest_of<F>(kvpage::KVFormats{}));

}  // namespace own
