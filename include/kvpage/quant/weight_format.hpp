/// \file WeightFormat: what a block format of quantised weights must offer, and its type-erased description.
#pragma once

#include <kvpage/base/config.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

KVPAGE_BEGIN_NAMESPACE

/// A stateless description of one weight format: rows are sequences of equal blocks, each decodable alone.
///
/// A model has
///  - `kName`: the name GGUF tools print, unique among the formats;
///  - `kGgufType`: the number of this type in GGUF tensor infos;
///  - `kBlockElements`, `kBlockBytes`: weights per block, bytes per block;
///  - `decode(block, out)`: the exact f32 values of one block [kBlockBytes] -> [kBlockElements]; this is the definition of
///    the format that every kernel is tested against. Multi-byte fields are little endian on every host;
///  - `scales_finite(block)`: false when a scale or minimum stored in the block (for plain floats: the value) is NaN or infinite.
///
/// Source: the block layouts of the GGUF format (ggml-org/ggml, docs/gguf.md and ggml-common.h).
template <class W>
concept WeightFormat = std::is_empty_v<W> && requires(const std::byte* block, float* out) {
  { W::decode(block, out) } noexcept -> std::same_as<void>;
  { W::scales_finite(block) } noexcept -> std::same_as<bool>;
  requires std::same_as<decltype(W::kName), const std::string_view>;
  requires std::same_as<decltype(W::kGgufType), const std::uint32_t>;
  requires std::same_as<decltype(W::kBlockElements), const std::int64_t>;
  requires std::same_as<decltype(W::kBlockBytes), const std::int64_t>;
  requires W::kBlockElements > 0 && W::kBlockBytes > 0;
};

/// What a loader knows about a format at run time; one constant object per format, compared by address.
struct WeightFormatInfo {
  std::string_view name;
  std::uint32_t gguf_type;
  std::int64_t block_elements;
  std::int64_t block_bytes;
  /// Decodes `num_blocks` consecutive blocks [num_blocks * block_bytes] to [num_blocks * block_elements].
  void (*decode_blocks)(const std::byte* blocks, std::int64_t num_blocks, float* out) noexcept;
  /// Index of the first block whose scales are not finite, or `num_blocks`.
  std::int64_t (*find_nonfinite)(const std::byte* blocks, std::int64_t num_blocks) noexcept;
};

namespace detail {
template <WeightFormat W>
void decode_blocks(const std::byte* blocks, std::int64_t num_blocks, float* out) noexcept {
  for (std::int64_t b = 0; b < num_blocks; ++b) W::decode(blocks + b * W::kBlockBytes, out + b * W::kBlockElements);
}

template <WeightFormat W>
std::int64_t find_nonfinite(const std::byte* blocks, std::int64_t num_blocks) noexcept {
  std::int64_t b = 0;
  while (b < num_blocks && W::scales_finite(blocks + b * W::kBlockBytes)) ++b;
  return b;
}
}  // namespace detail

/// The description of format W.
template <WeightFormat W>
inline constexpr WeightFormatInfo kWeightFormatInfo{
    W::kName, W::kGgufType, W::kBlockElements, W::kBlockBytes, &detail::decode_blocks<W>, &detail::find_nonfinite<W>};

KVPAGE_END_NAMESPACE
