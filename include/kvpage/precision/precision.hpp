/// \file Precision: what an element type of activations and KV pages must offer.
#pragma once

#include <kvpage/precision/float_shape.hpp>

#include <concepts>
#include <string_view>
#include <type_traits>

KVPAGE_BEGIN_NAMESPACE

/// A stateless description of one element type: how a value is stored, and how it becomes a float and back.
///
/// A model has
///  - `Storage`: plain trivially copyable type that holds one code; needs no CUDA header;
///  - `kBits`: bits per element in packed memory (4 = two elements per byte, the low nibble is the even index);
///  - `kName`: the name users type, unique among the precisions;
///  - `kIsCode`: false = codes are values; true = codes are integers that a quantiser multiplies by its own scale;
///  - `kShape`: the FloatShape of the codes; empty for integers. Kernels take what it says for true, and read codes by whole lanes;
///  - `kMaxFinite`: the largest finite value that decodes from a code;
///  - `kTolerance`: the largest error of one `encode`: relative for values in the normal range, absolute for integer codes;
///  - `decode(Storage) -> float` and `encode(float) -> Storage`, constexpr, host and device, bit-exact with the hardware format.
///
/// `encode` rounds to the nearest code, ties to even, and assumes the default rounding mode.
template <class P>
concept Precision = std::is_empty_v<P> && std::is_trivially_copyable_v<typename P::Storage> &&
                    requires(typename P::Storage code, float value) {
                      { P::decode(code) } noexcept -> std::same_as<float>;
                      { P::encode(value) } noexcept -> std::same_as<typename P::Storage>;
                      requires std::same_as<decltype(P::kBits), const int>;
                      requires std::same_as<decltype(P::kName), const std::string_view>;
                      requires std::same_as<decltype(P::kIsCode), const bool>;
                      requires std::same_as<decltype(P::kMaxFinite), const float>;
                      requires std::same_as<decltype(P::kTolerance), const float>;
                      requires std::same_as<decltype(P::kShape), const FloatShape>;
                      requires P::kBits > 0 && P::kBits <= 32;
                      requires(P::kIsCode ? P::kShape == FloatShape{}
                                          : P::kShape.bits() == P::kBits && P::kShape.max_finite() == static_cast<double>(P::kMaxFinite));
                    };

KVPAGE_END_NAMESPACE
