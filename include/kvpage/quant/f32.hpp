/// \file F32Weight: unquantised single-precision weights.
#pragma once

#include <kvpage/quant/block_fields.hpp>
#include <kvpage/quant/panel_shape.hpp>

KVPAGE_BEGIN_NAMESPACE

/// One IEEE single per block; NaN payloads are kept.
struct F32Weight {
  static constexpr std::string_view kName = "F32";
  static constexpr std::uint32_t kGgufType = 0;
  static constexpr std::int64_t kBlockElements = 1;
  static constexpr std::int64_t kBlockBytes = 4;

  static constexpr PlainElement kPlainElement = PlainElement::kFloat;

  /// [kBlockBytes] -> [kBlockElements]
  KVPAGE_HD static constexpr void decode(const std::byte* __restrict block, float* __restrict out) noexcept {
    *out = detail::bits_to_float(detail::load_u32(block));
  }

  KVPAGE_HD static constexpr bool scales_finite(const std::byte* block) noexcept {
    return (detail::load_u32(block) & 0x7F80'0000u) != 0x7F80'0000u;
  }
};
static_assert(PlainWeight<F32Weight>);

KVPAGE_END_NAMESPACE
