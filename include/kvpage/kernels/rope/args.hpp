/// \file RopeArgs: rotary position embedding of queries or keys, in place.
#pragma once

#include <kvpage/base/error.hpp>
#include <kvpage/base/types.hpp>

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
struct RopeArgs {
  float* x = nullptr;             // [num_tokens, num_heads, head_dim], in place; heads are contiguous
  std::int64_t token_stride = 0;  ///< floats from one token to the next
  std::int64_t num_tokens = 0;
  std::int64_t num_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t rotary_dim = 0;              ///< even, at most head_dim
  const std::int64_t* positions = nullptr;  // [num_tokens]
  const float* inv_freq = nullptr;          // [rotary_dim / 2], from rope_frequencies
  RopePairing pairing = RopePairing::kHalf;
  float magnitude = 1.0f;
};

/// Largest rotary_dim: the sines of one token live on the stack.
inline constexpr std::int64_t kMaxRotaryDim = 1024;
/// Positions from which on the reduction of angles would lose digits.
inline constexpr std::int64_t kMaxRopePosition = std::int64_t{1} << 27;

/// The error of a launch that cannot run, or ok. Cost: O(num_tokens).
inline Status validate(const RopeArgs& args) noexcept {
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
  for (std::int64_t t = 0; t < args.num_tokens; ++t) {
    if (args.positions[t] < 0 || args.positions[t] >= kMaxRopePosition) {
      return invalid("rope: a position is negative or beyond the limit", args.positions[t], kMaxRopePosition);
    }
  }
  return {};
}

KVPAGE_END_NAMESPACE
