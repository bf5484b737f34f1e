/// \file Loops that do nothing but the instruction whose rate is the ceiling of a kernel.
/// No include guard: ceilings.hpp compiles it once per instruction set.
#ifdef KVPAGE_ISA_BODY

/// Independent chains that hide the latency and fit the registers. They start from different values: equal ones would be merged.
inline constexpr int kChains = kLaneRegisters >= 32 ? 12 : 5;
inline int num_chains() { return kChains; }

/// `rounds` times kChains byte dots of 64 multiply-adds. Returns a number that keeps the loop alive.
inline float dot_loop(std::int64_t rounds, const std::uint8_t* bytes) {
  IntLanes sums[kChains];
  KVPAGE_UNROLL
  for (int i = 0; i < kChains; ++i) sums[i] = broadcast_int(i);
  const ByteLanes codes = and_bytes(load_bytes(bytes), broadcast_byte(15));
  const ByteLanes x = broadcast_quad(bytes);
  for (std::int64_t r = 0; r < rounds; ++r) {
    KVPAGE_UNROLL
    for (int i = 0; i < kChains; ++i) sums[i] = dot_codes(sums[i], codes, x);
    asm volatile("" ::: "memory");
  }
  IntLanes total = zero_int();
  KVPAGE_UNROLL
  for (int i = 0; i < kChains; ++i) total = add_int(total, sums[i]);
  return static_cast<float>(reduce_add_int(total));
}

/// The same with float multiply-adds, 16 each.
inline float fma_loop(std::int64_t rounds, const std::uint8_t* bytes) {
  FloatLanes sums[kChains];
  KVPAGE_UNROLL
  for (int i = 0; i < kChains; ++i) sums[i] = broadcast(static_cast<float>(i));
  const FloatLanes a = broadcast(static_cast<float>(bytes[0]));
  const FloatLanes b = broadcast(1e-9f);
  for (std::int64_t r = 0; r < rounds; ++r) {
    KVPAGE_UNROLL
    for (int i = 0; i < kChains; ++i) sums[i] = fma(a, b, sums[i]);
    asm volatile("" ::: "memory");
  }
  FloatLanes total = zero();
  KVPAGE_UNROLL
  for (int i = 0; i < kChains; ++i) total = add(total, sums[i]);
  return reduce_add(total);
}

/// Reads `size` bytes once from kStreams places in turn, one cache line from each.
template <int kStreams>
inline float read_loop(std::int64_t size, const std::uint8_t* bytes) {
  const std::int64_t part = size / kStreams / 64 * 64;
  IntLanes sums[kStreams];
  KVPAGE_UNROLL
  for (int j = 0; j < kStreams; ++j) sums[j] = zero_int();
  for (std::int64_t i = 0; i < part; i += 64) {
    KVPAGE_UNROLL
    for (int j = 0; j < kStreams; ++j) sums[j] = add_int(sums[j], load_int(reinterpret_cast<const std::int32_t*>(bytes + part * j + i)));
  }
  KVPAGE_UNROLL
  for (int j = 1; j < kStreams; ++j) sums[0] = add_int(sums[0], sums[j]);
  return static_cast<float>(reduce_add_int(sums[0]));
}
#endif
