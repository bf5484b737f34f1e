/// \file RopeArgs: rotary position embedding of queries or keys, in place.
#pragma once

#include <kvpage/base/tables_checked.hpp>
#include <kvpage/base/types.hpp>
#include <kvpage/precision/element.hpp>

#include <cmath>

KVPAGE_BEGIN_NAMESPACE

/// Which elements of a head form pair i of num_pairs = rotary_dim / 2.
enum class RopePairing : std::uint8_t {
  kAdjacent,  ///< 2i and 2i + 1
  kHalf,      ///< i and i + num_pairs
};

/// Rotates pair i of every head by the angle positions[t] * inv_freq[i] and multiplies it with `magnitude`:
/// (a, b) becomes magnitude * (a cos - b sin, a sin + b cos). Elements from rotary_dim on stay as they are.
///
/// Ensures: a head's bits depend on its values and position alone.
/// Source: Su et al., RoFormer, 2021.
template <Element X>
struct BasicRopeArgs {
  Stored<X>* x = nullptr;         // [num_tokens, num_heads, head_dim], in place; heads are contiguous
  std::int64_t token_stride = 0;  ///< elements from one token to the next
  std::int64_t num_tokens = 0;
  std::int64_t num_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t rotary_dim = 0;              ///< even, at most head_dim
  const std::int64_t* positions = nullptr;  // [num_tokens]
  const float* inv_freq = nullptr;          // [rotary_dim / 2], from rope_frequencies
  RopePairing pairing = RopePairing::kHalf;
  float magnitude = 1.0f;  ///< > 0, finite
  const float* table = nullptr;             // [num_tokens, 2, rotary_dim / 2] of rope_table with these values, or null
};
using RopeArgs = BasicRopeArgs<float>;

/// The cosines and sines that rope needs for these positions, times `magnitude`: computed once per step instead of once per layer.
/// A rotation with a table gives the bits of one without.
struct RopeTableArgs {
  const std::int64_t* positions = nullptr;  // [num_tokens]
  std::int64_t num_tokens = 0;
  const float* inv_freq = nullptr;          // [rotary_dim / 2]
  std::int64_t rotary_dim = 0;              ///< even
  float magnitude = 1.0f;
  float* out = nullptr;                     // [num_tokens, 2, rotary_dim / 2], cosines before sines
};

/// Largest rotary_dim: the sines of one token live on the stack.
inline constexpr std::int64_t kMaxRotaryDim = 1024;
/// Positions from which on the reduction of angles would lose digits.
inline constexpr std::int64_t kMaxRopePosition = std::int64_t{1} << 27;

namespace detail {
/// NaN turns a head into NaN, and magnitude 0 makes every score equal, without a word.
inline Status validate_magnitude(float magnitude) noexcept {
  if (magnitude > 0.0f && !std::isinf(magnitude)) return {};
  return {StatusCode::kInvalidArgument, "rope: magnitude must be finite and > 0"};
}

inline Status validate_angles(const float* inv_freq, std::int64_t rotary_dim, const std::int64_t* positions,
                              std::int64_t num_tokens) noexcept {
  for (std::int64_t i = 0; i < rotary_dim / 2; ++i) {
    if (!std::isfinite(inv_freq[i])) return {StatusCode::kInvalidArgument, "rope: a frequency is not finite", i, rotary_dim / 2};
  }
  for (std::int64_t t = 0; t < num_tokens; ++t) {
    if (positions[t] < 0 || positions[t] >= kMaxRopePosition) {
      return {StatusCode::kInvalidArgument, "rope: a position is negative or beyond the limit", positions[t], kMaxRopePosition};
    }
  }
  return {};
}
}  // namespace detail

/// The error of the numbers and pointers of a launch, or ok. Cost: O(1).
inline Status validate(const RopeTableArgs& args) noexcept {
  const auto invalid = [](const char* message, std::int64_t value, std::int64_t limit) {
    return Status(StatusCode::kInvalidArgument, message, value, limit);
  };
  if (args.num_tokens < 0) return invalid("rope_table: num_tokens is negative", args.num_tokens, 0);
  if (args.num_tokens == 0) return {};
  if (args.rotary_dim <= 0 || args.rotary_dim % 2 != 0) {
    return invalid("rope_table: rotary_dim must be positive and even", args.rotary_dim, 2);
  }
  if (args.rotary_dim > kMaxRotaryDim) return invalid("rope_table: rotary_dim exceeds its limit", args.rotary_dim, kMaxRotaryDim);
  if (args.positions == nullptr || args.inv_freq == nullptr || args.out == nullptr) {
    return invalid("rope_table: positions, inv_freq or out is null", 0, 1);
  }
  return detail::validate_magnitude(args.magnitude);
}

/// The error of the frequencies and positions of a launch that `validate` accepts, or ok. Cost: O(num_tokens + rotary_dim).
inline Status validate_tables(const RopeTableArgs& args) noexcept {
  if (args.num_tokens == 0) return {};
  return detail::validate_angles(args.inv_freq, args.rotary_dim, args.positions, args.num_tokens);
}

/// The error of the numbers and pointers of a launch, or ok. Cost: O(1).
template <Element X>
Status validate(const BasicRopeArgs<X>& args) noexcept {
  const auto invalid = [](const char* message, std::int64_t value, std::int64_t limit) {
    return Status(StatusCode::kInvalidArgument, message, value, limit);
  };
  if (args.num_tokens < 0) return invalid("rope: num_tokens is negative", args.num_tokens, 0);
  if (args.num_heads < 0) return invalid("rope: num_heads is negative", args.num_heads, 0);
  if (args.num_tokens == 0 || args.num_heads == 0) return {};
  if (args.rotary_dim <= 0 || args.rotary_dim % 2 != 0) return invalid("rope: rotary_dim must be positive and even", args.rotary_dim, 2);
  if (args.rotary_dim > args.head_dim) return invalid("rope: rotary_dim exceeds head_dim", args.rotary_dim, args.head_dim);
  if (args.rotary_dim > kMaxRotaryDim) return invalid("rope: rotary_dim exceeds its limit", args.rotary_dim, kMaxRotaryDim);
  if (args.x == nullptr || args.positions == nullptr || args.inv_freq == nullptr) {
    return invalid("rope: x, positions or inv_freq is null", 0, 1);
  }
  if (args.token_stride < args.num_heads * args.head_dim) {
    return invalid("rope: token_stride is smaller than num_heads * head_dim", args.token_stride, args.num_heads * args.head_dim);
  }
  return detail::validate_magnitude(args.magnitude);
}

/// The error of the frequencies and positions of a launch that `validate` accepts, or ok. Cost: O(num_tokens + rotary_dim).
template <Element X>
Status validate_tables(const BasicRopeArgs<X>& args) noexcept {
  if (args.num_tokens == 0 || args.num_heads == 0) return {};
  return detail::validate_angles(args.inv_freq, args.rotary_dim, args.positions, args.num_tokens);
}

KVPAGE_END_NAMESPACE
