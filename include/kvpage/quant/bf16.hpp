/// \file BF16Weight: weights that are the upper 16 bits of a float.
#pragma once

#include <kvpage/quant/block_fields.hpp>
#include <kvpage/quant/panel_shape.hpp>

KVPAGE_BEGIN_NAMESPACE

/// One upper-half float per block.
struct BF16Weight {
  static constexpr std::string_view kName = "BF16";
  static constexpr std::uint32_t kGgufType = 30;
  static constexpr std::int64_t kBlockElements = 1;
  static constexpr std::int64_t kBlockBytes = 2;

  static constexpr PlainElement kPlainElement = PlainElement::kBfloat;

  /// [kBlockBytes] -> [kBlockElements]
  KVPAGE_HD static constexpr void decode(const std::byte* __restrict block, float* __restrict out) noexcept {
    *out = decode_upper_half(detail::load_u16(block));
  }

  KVPAGE_HD static constexpr bool scales_finite(const std::byte* block) noexcept {
    return (detail::load_u16(block) & 0x7F80u) != 0x7F80u;
  }
};
static_assert(PlainWeight<BF16Weight>);

KVPAGE_END_NAMESPACE
