/// \file The oracle of rope, in double.
#pragma once

#include <kvpage/kernels/rope/args.hpp>

#include <cmath>

KVPAGE_BEGIN_NAMESPACE
namespace reference {

/// rope of positions and frequencies that `validate_tables` accepts.
inline Status rope(const RopeArgs& args, TablesChecked) {
  if (const Status status = validate(args); !status.ok()) return status;
  const std::int64_t num_pairs = args.rotary_dim / 2;
  for (std::int64_t t = 0; t < args.num_tokens; ++t) {
    for (std::int64_t h = 0; h < args.num_heads; ++h) {
      float* head = args.x + t * args.token_stride + h * args.head_dim;
      for (std::int64_t i = 0; i < num_pairs; ++i) {
        float& a = args.pairing == RopePairing::kHalf ? head[i] : head[2 * i];
        float& b = args.pairing == RopePairing::kHalf ? head[i + num_pairs] : head[2 * i + 1];
        const double angle = static_cast<double>(args.positions[t]) * static_cast<double>(args.inv_freq[i]);
        const double c = static_cast<double>(args.magnitude) * std::cos(angle);
        const double s = static_cast<double>(args.magnitude) * std::sin(angle);
        const double rotated_a = static_cast<double>(a) * c - static_cast<double>(b) * s;
        const double rotated_b = static_cast<double>(a) * s + static_cast<double>(b) * c;
        a = static_cast<float>(rotated_a);
        b = static_cast<float>(rotated_b);
      }
    }
  }
  return {};
}

/// Obvious loops in double; the contract is RopeArgs.
inline Status rope(const RopeArgs& args) {
  if (const Status status = validate_launch(args); !status.ok()) return status;
  return rope(args, kTablesChecked);
}

}  // namespace reference
KVPAGE_END_NAMESPACE
