/// \file AttentionState: attention over a part of the keys, and the one merge that joins two parts.
#pragma once

#include <kvpage/base/config.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

KVPAGE_BEGIN_NAMESPACE

/// Attention of one row over some set of keys: out = sum exp(score - max) * value, sum = sum exp(score - max).
/// A finished result (out, lse) is the state {max = lse, sum = 1, out}. The empty set is {-infinity, 0, 0}.
template <class T>
struct AttentionState {
  T max = -std::numeric_limits<T>::infinity();
  T sum = T{0};
  T* out = nullptr;  // [head_dim]

  constexpr bool empty() const noexcept { return sum == T{0}; }

  /// log of the sum of exp(score): -infinity for the empty set.
  T lse() const noexcept { return empty() ? -std::numeric_limits<T>::infinity() : max + std::log(sum); }
};

/// Adds the keys of `part` to `total`. Split-KV, shared prefixes and context parallelism all end in this sum; joining an
/// empty state changes nothing, bit for bit. Not associative in floats: keep one order (the kernels fold left).
template <class T>
void merge_attention(AttentionState<T>& total, const AttentionState<T>& part, std::int64_t head_dim) noexcept {
  if (part.empty()) return;
  if (total.empty()) {
    total.max = part.max;
    total.sum = part.sum;
    for (std::int64_t d = 0; d < head_dim; ++d) total.out[d] = part.out[d];
    return;
  }
  const T max = part.max > total.max ? part.max : total.max;
  const T keep = std::exp(total.max - max);
  const T add = std::exp(part.max - max);
  total.max = max;
  total.sum = std::fma(part.sum, add, total.sum * keep);
  for (std::int64_t d = 0; d < head_dim; ++d) total.out[d] = std::fma(part.out[d], add, total.out[d] * keep);
}

/// out [head_dim] = out / sum, and 0 for the empty state.
template <class T>
void normalize_attention(const AttentionState<T>& state, std::int64_t head_dim) noexcept {
  for (std::int64_t d = 0; d < head_dim; ++d) state.out[d] = state.empty() ? T{0} : state.out[d] / state.sum;
}

KVPAGE_END_NAMESPACE
