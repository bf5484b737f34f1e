/// \file Element: what rows of activations are made of: float, or the codes of a precision.
#pragma once

#include <kvpage/precision/precision.hpp>

KVPAGE_BEGIN_NAMESPACE

/// An element type of args structs: `float`, or a Precision whose codes are values. Kernels compute in float (reference kernels in
/// double) and round to the nearest code once, when they store.
template <class E>
concept Element = std::is_same_v<E, float> || (Precision<E> && !E::kIsCode);

/// One element in memory and its value.
template <Element E>
struct ElementCodec {
  using Storage = typename E::Storage;
  static constexpr FloatShape kShape = E::kShape;
  KVPAGE_HD static constexpr float decode(Storage code) noexcept { return E::decode(code); }
  KVPAGE_HD static constexpr Storage encode(float value) noexcept { return E::encode(value); }
};
template <>
struct ElementCodec<float> {
  using Storage = float;
  static constexpr FloatShape kShape{.exponent_bits = 8, .mantissa_bits = 23};
  KVPAGE_HD static constexpr float decode(float value) noexcept { return value; }
  KVPAGE_HD static constexpr float encode(float value) noexcept { return value; }
};

/// The type that memory of E holds.
template <Element E>
using Stored = typename ElementCodec<E>::Storage;

/// The value of an element, for sums in double.
template <Element E>
KVPAGE_HD constexpr double element_value(Stored<E> code) noexcept {
  return static_cast<double>(ElementCodec<E>::decode(code));
}

KVPAGE_END_NAMESPACE
