/// \file The rotation of one token's heads. No include guard: cpu.hpp compiles it once per instruction set.
#ifndef KVPAGE_ISA_BODY
#include <kvpage/kernels/rope/cpu.hpp>
#else

/// Rotates the heads of one token with pairs (i, i + num_pairs).
/// Shapes: heads [num_heads, head_dim], cosine and sine [rotary_dim / 2].
template <Element X>
void rope_half_token(const BasicRopeArgs<X>& args, Stored<X>* heads, const float* cosine, const float* sine) {
  using Codec = ElementCodec<X>;
  const std::int64_t num_pairs = args.rotary_dim / 2;
  for (std::int64_t h = 0; h < args.num_heads; ++h) {
    Stored<X>* first = heads + h * args.head_dim;
    Stored<X>* second = first + num_pairs;
    for (std::int64_t i = 0; i < num_pairs; i += 16) {
      const int count = num_pairs - i < 16 ? static_cast<int>(num_pairs - i) : 16;
      const FloatLanes c = load_first(cosine + i, count);
      const FloatLanes s = load_first(sine + i, count);
      const FloatLanes a = load_elements<Codec>(first + i, count);
      const FloatLanes b = load_elements<Codec>(second + i, count);
      store_elements<Codec>(first + i, fnma(b, s, mul(a, c)), count);
      store_elements<Codec>(second + i, fma(b, c, mul(a, s)), count);
    }
  }
}

/// The same for pairs (2i, 2i + 1).
template <Element X>
void rope_adjacent_token(const BasicRopeArgs<X>& args, Stored<X>* heads, const float* cosine, const float* sine) {
  for (std::int64_t h = 0; h < args.num_heads; ++h) {
    Stored<X>* head = heads + h * args.head_dim;
    for (std::int64_t i = 0; i < args.rotary_dim / 2; ++i) {
      const float a = ElementCodec<X>::decode(head[2 * i]);
      const float b = ElementCodec<X>::decode(head[2 * i + 1]);
      head[2 * i] = ElementCodec<X>::encode(__builtin_fmaf(-b, sine[i], a * cosine[i]));
      head[2 * i + 1] = ElementCodec<X>::encode(__builtin_fmaf(b, cosine[i], a * sine[i]));
    }
  }
}
#endif
