/// \file F16Weight: unquantised 16-bit IEEE weights.
#pragma once

#include <kvpage/quant/block_fields.hpp>
#include <kvpage/quant/panel_shape.hpp>

KVPAGE_BEGIN_NAMESPACE

/// One 16-bit IEEE float per block.
struct F16Weight {
  static constexpr std::string_view kName = "F16";
  static constexpr std::uint32_t kGgufType = 1;
  static constexpr std::int64_t kBlockElements = 1;
  static constexpr std::int64_t kBlockBytes = 2;

  static constexpr PlainElement kPlainElement = PlainElement::kHalf;

  /// [kBlockBytes] -> [kBlockElements]
  KVPAGE_HD static constexpr void decode(const std::byte* __restrict block, float* __restrict out) noexcept {
    *out = detail::load_half(block);
  }

  KVPAGE_HD static constexpr bool scales_finite(const std::byte* block) noexcept {
    return detail::half_is_finite(block);
  }
};
static_assert(PlainWeight<F16Weight>);

KVPAGE_END_NAMESPACE
