/// \file The oracle of rope, in double.
#pragma once

#include <kvpage/kernels/rope/args.hpp>

#include <cmath>

KVPAGE_BEGIN_NAMESPACE
namespace reference {

/// rope of positions and frequencies that `validate_tables` accepts.
template <Element X = float>
Status rope(const BasicRopeArgs<X>& args, TablesChecked) {
  if (const Status status = validate(args); !status.ok()) return status;
  const std::int64_t num_pairs = args.rotary_dim / 2;
  for (std::int64_t t = 0; t < args.num_tokens; ++t) {
    for (std::int64_t h = 0; h < args.num_heads; ++h) {
      Stored<X>* head = args.x + t * args.token_stride + h * args.head_dim;
      for (std::int64_t i = 0; i < num_pairs; ++i) {
        Stored<X>& a = args.pairing == RopePairing::kHalf ? head[i] : head[2 * i];
        Stored<X>& b = args.pairing == RopePairing::kHalf ? head[i + num_pairs] : head[2 * i + 1];
        const double angle = static_cast<double>(args.positions[t]) * static_cast<double>(args.inv_freq[i]);
        const double c = static_cast<double>(args.magnitude) * std::cos(angle);
        const double s = static_cast<double>(args.magnitude) * std::sin(angle);
        const double rotated_a = element_value<X>(a) * c - element_value<X>(b) * s;
        const double rotated_b = element_value<X>(a) * s + element_value<X>(b) * c;
        a = ElementCodec<X>::encode(static_cast<float>(rotated_a));
        b = ElementCodec<X>::encode(static_cast<float>(rotated_b));
      }
    }
  }
  return {};
}

/// Obvious loops in double; the contract is RopeArgs.
template <Element X = float>
Status rope(const BasicRopeArgs<X>& args) {
  if (const Status status = validate_launch(args); !status.ok()) return status;
  return rope(args, kTablesChecked);
}

}  // namespace reference
KVPAGE_END_NAMESPACE
