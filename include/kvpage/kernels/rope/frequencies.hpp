/// \file rope_frequencies: the angle per position of every pair, with the known ways to stretch the context.
#pragma once

#include <kvpage/base/error.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

KVPAGE_BEGIN_NAMESPACE

/// How the frequencies of a longer context are derived from the trained ones.
enum class RopeScalingKind : std::uint8_t {
  kNone,
  kLinear,          ///< every frequency / factor (position interpolation)
  kFrequencyBands,  ///< high frequencies kept, low ones / factor, a blend between (by wavelength against the trained context)
  kYarn,            ///< NTK-by-parts: the same idea by number of rotations, plus a magnitude
};

/// Parameters of the rotary embedding's frequencies.
struct RopeScaling {
  double theta = 10000.0;
  RopeScalingKind kind = RopeScalingKind::kNone;
  double factor = 1.0;              ///< how much longer the context became; all kinds but kNone
  double original_context = 0.0;    ///< trained positions; kFrequencyBands, kYarn
  double low_freq_factor = 1.0;     ///< kFrequencyBands: wavelengths above original / low are divided
  double high_freq_factor = 4.0;    ///< kFrequencyBands: wavelengths below original / high are kept
  double beta_fast = 32.0;          ///< kYarn: rotations from which on a pair is kept
  double beta_slow = 1.0;           ///< kYarn: rotations up to which a pair is divided
  double magnitude_scale = 1.0;     ///< multiplies the magnitude
  std::span<const float> factors{};  // [rotary_dim / 2] or empty: each frequency is divided by its factor, after `kind`
};

namespace detail {
/// A number that may divide or multiply a frequency.
inline bool is_ratio(double value) { return value > 0.0 && !std::isinf(value); }

/// For messages: the number without its fraction; 0 for NaN and what no 64 bits hold.
inline std::int64_t whole(double value) { return std::fabs(value) < 0x1p63 ? static_cast<std::int64_t>(value) : 0; }

inline void check_yarn(const RopeScaling& s) {
  if (!(is_ratio(s.beta_slow) && is_ratio(s.beta_fast) && s.beta_fast > s.beta_slow)) {
    throw_config_error("rope: beta_fast must be above beta_slow, both finite and positive", whole(s.beta_fast),
                       whole(s.beta_slow), "rotations");
  }
  if (!is_ratio(s.magnitude_scale)) {
    throw_config_error("rope: magnitude_scale must be finite and positive", whole(s.magnitude_scale), 0, "scale");
  }
}

inline void check_rope_scaling(const RopeScaling& s, std::int64_t rotary_dim, std::int64_t out_size) {
  if (rotary_dim <= 0 || rotary_dim % 2 != 0) throw_config_error("rope: rotary_dim must be positive and even", rotary_dim, 2, "elements");
  if (out_size != rotary_dim / 2) throw_config_error("rope: one frequency per pair is wanted", out_size, rotary_dim / 2, "frequencies");
  if (!(s.theta > 1.0) || std::isinf(s.theta)) throw_config_error("rope: theta must be finite and above 1", whole(s.theta), 1, "theta");
  if (s.kind != RopeScalingKind::kNone && !is_ratio(s.factor)) {
    throw_config_error("rope: the scaling factor must be finite and positive", whole(s.factor), 0, "factor");
  }
  const bool needs_context = s.kind == RopeScalingKind::kFrequencyBands || s.kind == RopeScalingKind::kYarn;
  if (needs_context && !is_ratio(s.original_context)) {
    throw_config_error("rope: this scaling needs the original context length", whole(s.original_context), 1, "positions");
  }
  if (s.kind == RopeScalingKind::kFrequencyBands && !(s.high_freq_factor > s.low_freq_factor && s.low_freq_factor > 0.0)) {
    throw_config_error("rope: high_freq_factor must be above low_freq_factor, both positive",
                       whole(s.high_freq_factor), whole(s.low_freq_factor), "factor");
  }
  if (s.kind == RopeScalingKind::kYarn) check_yarn(s);
  if (!s.factors.empty() && static_cast<std::int64_t>(s.factors.size()) != rotary_dim / 2) {
    throw_config_error("rope: one factor per pair is wanted", static_cast<std::int64_t>(s.factors.size()), rotary_dim / 2, "factors");
  }
  for (const float factor : s.factors) {
    const auto value = static_cast<double>(factor);
    if (!is_ratio(value)) throw_config_error("rope: every factor must be finite and positive", whole(value), 0, "factor");
  }
}

/// Source: the scaling by wavelength of huggingface/transformers, modeling_rope_utils.
inline double scale_by_band(const RopeScaling& s, double freq) {
  const double wavelength = 2.0 * std::numbers::pi / freq;
  if (wavelength < s.original_context / s.high_freq_factor) return freq;
  if (wavelength > s.original_context / s.low_freq_factor) return freq / s.factor;
  const double keep = (s.original_context / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1.0 - keep) * freq / s.factor + keep * freq;
}

/// Source: Peng et al., YaRN, 2023, section 3.2.
inline double scale_by_rotations(const RopeScaling& s, double freq, std::int64_t pair, std::int64_t rotary_dim) {
  const double dim = static_cast<double>(rotary_dim);
  const auto pair_with_rotations = [&](double rotations) {
    return dim * std::log(s.original_context / (rotations * 2.0 * std::numbers::pi)) / (2.0 * std::log(s.theta));
  };
  const double first = std::max(0.0, std::floor(pair_with_rotations(s.beta_fast)));
  const double last = std::min(dim - 1.0, std::ceil(pair_with_rotations(s.beta_slow)));
  const double divided = std::clamp((static_cast<double>(pair) - first) / std::max(0.001, last - first), 0.0, 1.0);
  return divided * freq / s.factor + (1.0 - divided) * freq;
}
}  // namespace detail

/// Writes the frequencies of all pairs: theta^(-2i / rotary_dim), scaled.
/// Shapes: out [rotary_dim / 2]. Errors: ConfigError naming the bad field.
inline void rope_frequencies(const RopeScaling& scaling, std::int64_t rotary_dim, std::span<float> out) {
  detail::check_rope_scaling(scaling, rotary_dim, static_cast<std::int64_t>(out.size()));
  for (std::int64_t i = 0; i < rotary_dim / 2; ++i) {
    double freq = std::pow(scaling.theta, -2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim));
    if (scaling.kind == RopeScalingKind::kLinear) freq /= scaling.factor;
    if (scaling.kind == RopeScalingKind::kFrequencyBands) freq = detail::scale_by_band(scaling, freq);
    if (scaling.kind == RopeScalingKind::kYarn) freq = detail::scale_by_rotations(scaling, freq, i, rotary_dim);
    if (!scaling.factors.empty()) freq /= static_cast<double>(scaling.factors[static_cast<std::size_t>(i)]);
    out[static_cast<std::size_t>(i)] = static_cast<float>(freq);
  }
}

/// What rotated values are multiplied with: magnitude_scale, and for kYarn with a factor above 1 also 0.1 ln(factor) + 1.
inline float rope_magnitude(const RopeScaling& scaling) {
  const bool grows = scaling.kind == RopeScalingKind::kYarn && scaling.factor > 1.0;
  const double base = grows ? 0.1 * std::log(scaling.factor) + 1.0 : 1.0;
  return static_cast<float>(scaling.magnitude_scale * base);
}

KVPAGE_END_NAMESPACE
