/// \file Rows of any element type by 16 lanes. No include guard: simd.hpp compiles it once per instruction set.
#ifndef KVPAGE_ISA_BODY
#include <kvpage/exec/simd.hpp>
#else

/// 16 elements as floats. Codec says what their codes are (Storage, kShape, decode, encode).
template <class Codec>
KVPAGE_LANES FloatLanes load_elements(const typename Codec::Storage* p) {
  using Storage = typename Codec::Storage;
  constexpr auto kShape = Codec::kShape;
  constexpr bool kTwoBytes = std::is_same_v<Storage, std::uint16_t> && kShape.has_infinity();
  if constexpr (std::is_same_v<Storage, float>) {
    return load(p);
  } else if constexpr (kTwoBytes && kShape.exponent_bits == 5 && kShape.mantissa_bits == 10) {
    return load_half(p);
  } else if constexpr (kTwoBytes && kShape.exponent_bits == 8 && kShape.mantissa_bits == 7) {
    return load_bfloat(p);
  } else {
    float values[16];
    for (int i = 0; i < 16; ++i) values[i] = Codec::decode(p[i]);
    return load(values);
  }
}

/// The first `count` <= 16 of them, zeros behind.
template <class Codec>
KVPAGE_LANES FloatLanes load_elements(const typename Codec::Storage* p, int count) {
  if constexpr (std::is_same_v<typename Codec::Storage, float>) {
    return load_first(p, count);
  } else {
    if (count == 16) return load_elements<Codec>(p);
    typename Codec::Storage part[16] = {};
    for (int i = 0; i < count; ++i) part[i] = p[i];
    return load_elements<Codec>(part);
  }
}

/// Rounds the first `count` <= 16 lanes to elements.
template <class Codec>
KVPAGE_LANES void store_elements(typename Codec::Storage* p, FloatLanes a, int count) {
  if constexpr (std::is_same_v<typename Codec::Storage, float>) {
    store_first(p, a, count);
  } else {
    float values[16];
    store(values, a);
    for (int i = 0; i < count; ++i) p[i] = Codec::encode(values[i]);
  }
}
#endif
