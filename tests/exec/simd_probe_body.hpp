/// \file Runs every function of the 16-lane vocabulary on given operands and writes all results as bits.
/// No include guard: simd_test.cpp compiles it once per instruction set.
#ifdef KVPAGE_ISA_BODY

struct ProbeWriter {
  std::uint32_t* out;
  void floats(FloatLanes a) {
    alignas(64) float v[16];
    store(v, a);
    __builtin_memcpy(out, v, 64);
    out += 16;
  }
  void ints(IntLanes a) {
    alignas(64) std::int32_t v[16];
    store_int(v, a);
    __builtin_memcpy(out, v, 64);
    out += 16;
  }
  void number(std::uint32_t x) { *out++ = x; }
  void scalar(float x) {
    __builtin_memcpy(out, &x, 4);
    ++out;
  }
};

inline void probe_floats(const ProbeInput& in, ProbeWriter& w) {
  const FloatLanes a = load(in.a);
  const FloatLanes b = load(in.b);
  const FloatLanes c = load(in.c);
  for (const FloatLanes r : {add(a, b), sub(a, b), mul(a, b), div(a, b), sqrt(a), fma(a, b, c), fnma(a, b, c), max(a, b), min(a, b),
                             abs(a), copy_sign(a, b), broadcast(in.a[3]), zero(), select(less(a, b), a, c), select(equal(a, b), b, c),
                             load_half(in.halves), load_bfloat(in.halves), load_small_float<4>(in.bytes),
                             load_small_float<5>(in.bytes)}) {
    w.floats(r);
  }
  w.number(mask_bits(less(a, b)));
  w.number(mask_bits(equal(a, a)));
  w.number(mask_bits(mask_from_bits(0xa5c3u)));
  w.scalar(reduce_add(a));
  w.scalar(reduce_max(a));
  for (int count = 0; count <= 17; ++count) {
    w.number(mask_bits(first_lanes(count)));
    w.floats(load_first(in.a, count));
    float stored[18];
    for (float& s : stored) s = -3.0f;
    store_first(stored + 1, b, count);
    for (const float s : stored) w.scalar(s);
  }
  std::uint16_t halves[16];
  store_half(halves, a);
  for (const std::uint16_t h : halves) w.number(h);
}

inline void probe_ints(const ProbeInput& in, ProbeWriter& w) {
  const IntLanes a = load_s8(reinterpret_cast<const std::int8_t*>(in.bytes));
  const IntLanes b = load_u8(in.bytes + 16);
  for (const IntLanes r : {a, b, add_int(a, b), sub_int(a, b), and_int(a, b), max_int(a, b), shift_left_int<5>(a), shift_right_int<2>(a),
                           broadcast_int(-7), zero_int(), load_int(in.ints), bits_of(load(in.a)), round_to_int(load(in.small))}) {
    w.ints(r);
  }
  w.floats(to_float(load_int(in.ints)));
  w.floats(from_bits(load_int(in.ints)));
  w.number(static_cast<std::uint32_t>(reduce_add_int(a)));
  w.number(static_cast<std::uint32_t>(reduce_max_int(sub_int(a, b))));
  std::int8_t narrow[16];
  store_s8(narrow, a);
  for (const std::int8_t n : narrow) w.number(static_cast<std::uint32_t>(n));
}

inline void probe_bytes(const ProbeInput& in, ProbeWriter& w) {
  const ByteLanes low7 = and_bytes(load_bytes(in.bytes), broadcast_byte(127));
  const ByteLanes all = load_bytes(in.bytes);
  const ByteLanes signed_x = load_bytes(in.signed_bytes);
  const IntLanes start = load_int(in.ints);
  w.ints(dot_codes(start, low7, signed_x));
  std::int8_t transposed[64];
  store_bytes(transposed, load_transposed(in.signed_bytes, 16));
  w.ints(dot_codes(start, low7, load_bytes(transposed)));
  w.ints(dot_codes(start, broadcast_byte(1), load_transposed(in.signed_bytes + 1, 13)));
  w.ints(dot_codes(start, low7, broadcast_quad(in.signed_bytes + 8)));
  // The sum of x per lane, times kCenteredStart, makes dot_centered the same number on every path.
  const IntLanes x_sum = dot_codes(zero_int(), broadcast_byte(1), signed_x);
  IntLanes centered = start;
  for (int i = 0; i < -kCenteredStart; ++i) centered = sub_int(centered, x_sum);
  w.ints(dot_centered(centered, all, signed_x));
  const ByteLanes nibbles = and_bytes(shift_right_bytes<4>(all), broadcast_byte(15));
  PairLanes pairs = zero_pairs();
  for (int i = 0; i < 8; ++i) pairs = dot_pairs(pairs, nibbles, signed_x);
  w.ints(add_pairs(start, pairs));
  // The largest sums that sixteen bits hold: 8 times 2 products of 15 * 127, of both signs.
  for (const int extreme : {127, -127}) {
    pairs = zero_pairs();
    for (int i = 0; i < 8; ++i) pairs = dot_pairs(pairs, broadcast_byte(15), broadcast_byte(extreme));
    w.ints(add_pairs(start, pairs));
  }
  const ByteLanes shifted = and_bytes(shift_left_bytes<3>(all), broadcast_byte(0x18));
  const ByteLanes looked_up = lookup_bytes(broadcast_table(in.bytes + 3), nibbles);
  for (const ByteLanes r : {nibbles, shifted, or_bytes(nibbles, shifted), merge_bytes(nibbles, all, broadcast_byte(0x30)),
                            and_bytes(looked_up, broadcast_byte(127))}) {
    w.ints(dot_codes(zero_int(), r, broadcast_quad("\x01\x00\x00\x00")));
    w.ints(dot_codes(zero_int(), r, broadcast_quad("\x00\x01\x03\x07")));
  }
  prefetch(in.bytes);
}

/// Returns the number of words written.
inline std::int64_t probe_vocabulary(const ProbeInput& in, std::uint32_t* out) {
  ProbeWriter writer{out};
  probe_floats(in, writer);
  probe_ints(in, writer);
  probe_bytes(in, writer);
  return writer.out - out;
}

/// 0 exp, 1 tanh, 2 silu, 3 gelu, 4 sigmoid of 16 floats.
inline void probe_math(int function, const float* x, float* out) {
  const FloatLanes a = load(x);
  store(out, function == 0 ? exp(a) : function == 1 ? tanh(a) : function == 2 ? silu(a) : function == 3 ? gelu(a) : sigmoid(a));
}
#endif
