/// \file Writing vectors as halves. No include guard: cpu.hpp compiles it once per instruction set.
#ifndef KVPAGE_ISA_BODY
#include <kvpage/kernels/append_kv/cpu.hpp>
#else

/// The contract is StoreHalves.
inline void store_halves(const float* x, std::int64_t count, float divisor, std::uint16_t* out, std::int64_t stride) {
  const FloatLanes scale = broadcast(divisor);
  for (std::int64_t i = 0; i < count; i += 16) {
    const int lanes = count - i < 16 ? static_cast<int>(count - i) : 16;
    alignas(32) std::uint16_t halves[16];
    store_half(halves, div(load_first(x + i, lanes), scale));
    for (int lane = 0; lane < lanes; ++lane) out[(i + lane) * stride] = halves[lane];
  }
}
#endif
