/// \file KeyBias: the part of every key that a model's key bias adds, taken out before quantising and added back at score time.
#pragma once

#include <kvpage/base/config.hpp>

#include <cmath>
#include <cstdint>

KVPAGE_BEGIN_NAMESPACE

/// Positions that share one turned bias: page j of the bias is positions 32 j .. 32 j + 31, whatever the block size.
inline constexpr std::int64_t kKeyBiasPageTokens = 32;

/// A key is R_p (W x + b). The bias b can be a hundred times larger than the rest, and would eat the codes of a quantised
/// key, and the few bits of mantissa of a small float. So codecs of 8 bits or fewer store k_p - R_mid b, with b turned to the
/// middle (32 j + 15.5) of the page of position p, and attention adds q . R_mid b once per query, head and page. It depends on
/// absolute positions only, so shared prefixes stay exact. Floats of 16 and more bits ignore it.
///
/// `bias` nullptr = the model has none.
struct KeyBias {
  const float* bias = nullptr;           // [num_kv_heads, head_dim], as added before the rotary embedding
  const float* page_rotation = nullptr;  // [num_pages, 2, rotary_dim / 2]: cosines, then sines, at 32 j + 15.5
  std::int64_t num_pages = 0;
  std::int64_t rotary_dim = 0;  ///< dims [0, rotary_dim) are turned, the rest is not
  bool adjacent_pairs = false;  ///< pairs (2i, 2i + 1); false: (i, i + rotary_dim / 2)

  constexpr explicit operator bool() const noexcept { return bias != nullptr; }
};

/// Fills page_rotation [num_pages, 2, rotary_dim / 2] from the angle per position of each pair, inv_freq [rotary_dim / 2].
inline void fill_page_rotation(const float* inv_freq, std::int64_t rotary_dim, std::int64_t num_pages, float* page_rotation) {
  constexpr double kMiddle = (static_cast<double>(kKeyBiasPageTokens) - 1.0) / 2.0;
  const std::int64_t num_pairs = rotary_dim / 2;
  for (std::int64_t page = 0; page < num_pages; ++page) {
    const double position = static_cast<double>(page * kKeyBiasPageTokens) + kMiddle;
    for (std::int64_t i = 0; i < num_pairs; ++i) {
      const double angle = position * static_cast<double>(inv_freq[i]);
      page_rotation[2 * page * num_pairs + i] = static_cast<float>(std::cos(angle));
      page_rotation[(2 * page + 1) * num_pairs + i] = static_cast<float>(std::sin(angle));
    }
  }
}

/// out [head_dim] = the bias of one head, turned to the middle of `page`. Writers and readers must agree on it up to
/// rounding: what is taken out is what is added back. Requires: page < num_pages.
template <class T>
KVPAGE_HD inline void turned_key_bias(const KeyBias& bias, std::int64_t page, std::int64_t head, std::int64_t head_dim, T* out) {
  const float* b = bias.bias + head * head_dim;
  const std::int64_t num_pairs = bias.rotary_dim / 2;
  for (std::int64_t i = 0; i < num_pairs; ++i) {
    const std::int64_t x = bias.adjacent_pairs ? 2 * i : i;
    const std::int64_t y = bias.adjacent_pairs ? 2 * i + 1 : i + num_pairs;
    const float cos = bias.page_rotation[2 * page * num_pairs + i];
    const float sin = bias.page_rotation[(2 * page + 1) * num_pairs + i];
    out[x] = static_cast<T>(std::fma(b[x], cos, -(b[y] * sin)));
    out[y] = static_cast<T>(std::fma(b[x], sin, b[y] * cos));
  }
  for (std::int64_t d = bias.rotary_dim; d < head_dim; ++d) out[d] = static_cast<T>(b[d]);
}

KVPAGE_END_NAMESPACE
