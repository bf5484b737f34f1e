/// \file append_kv on the CPU backend: tokens over the workers.
#pragma once

#include <kvpage/exec/cpu.hpp>
#include <kvpage/exec/simd.hpp>
#include <kvpage/kernels/append_kv/args.hpp>
#include <kvpage/kv/paged_kv_view_access.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#define KVPAGE_ISA_BODY <kvpage/kernels/append_kv/cpu_body.hpp>
#include <kvpage/exec/for_each_isa.hpp>

KVPAGE_BEGIN_NAMESPACE

namespace detail {
/// Writes x[i] / divisor, i < count, as an IEEE half to out[i * stride].
using StoreHalves = void (*)(const float* x, std::int64_t count, float divisor, std::uint16_t* out, std::int64_t stride);

/// Codecs of plain IEEE halves, whoever wrote them; overflow must become infinity, as the processor has it.
template <class C>
inline constexpr bool kStoresHalves = false;
template <class P>
  requires(P::kShape == FloatShape{.exponent_bits = 5, .mantissa_bits = 10})
inline constexpr bool kStoresHalves<PlainCodec<P>> = true;

/// Codecs whose codes are floats, one per dim and without parameters.
template <class C>
inline constexpr bool kStoresFloats = false;
template <class P>
  requires std::is_same_v<typename P::Storage, float>
inline constexpr bool kStoresFloats<PlainCodec<P>> = true;

/// hadamard_rotate with the signs from their table: the same bits.
inline void rotate_vector(float* x, std::int64_t head_dim) noexcept {
  for_each_rotation_block(head_dim, [x](std::int64_t begin, std::int64_t size) {
    const float norm = 1.0f / std::sqrt(static_cast<float>(size));
    for (std::int64_t d = begin; d < begin + size; ++d) x[d] *= kRotationSigns.value[d];
    walsh_hadamard(x + begin, size);
    for (std::int64_t d = begin; d < begin + size; ++d) x[d] *= norm;
  });
}

/// Encodes x [head_dim] and stores it as token `t`. Codes of whole bytes lie at one stride from word to word of dims, in every layout.
template <bool kIsKey, KVStorage KV>
void store_vector(const KVSide<KV, kIsKey>& side, std::int64_t t, const float* x) noexcept {
  using Codec = typename KVSide<KV, kIsKey>::Codec;
  typename Codec::Code codes[kMaxHeadDim];
  std::uint16_t params[kMaxKVParams] = {};
  const std::int64_t head_dim = side.dims.head_dim;
  constexpr std::int64_t kWord = kIsKey ? Codec::kDotDims : 1;
  if (Codec::kBits == 4 || head_dim % kWord != 0 || head_dim <= kWord) {
    Codec::encode(x, head_dim, codes, params);
    for (std::int64_t d = 0; d < head_dim; ++d) store_code<Codec>(side.codes, side.index(t, d), codes[d]);
  } else {
    const std::int64_t first = side.index(t, 0);
    const std::int64_t stride = side.index(t, kWord) - first;
    auto* out = reinterpret_cast<typename Codec::Code*>(side.codes) + first;
    if constexpr (kStoresFloats<Codec>) {
      // Not through `codes`: a copy that was just written is read back while stores to head_dim lines of the page wait.
      for (std::int64_t d = 0; d < head_dim; ++d, out += stride) Codec::encode(x + d, 1, out, params);
    } else {
      Codec::encode(x, head_dim, codes, params);
      for (std::int64_t d = 0; d < head_dim; d += kWord, out += stride) std::memcpy(out, codes + d, sizeof(codes[0]) * kWord);
    }
  }
  for (std::int64_t p = 0; p < side.shape.num_params; ++p) {
    side.params[KV::Layout::param_index(side.dims, side.shape, t, p)] = params[p];
  }
}

/// Writes the key or value of one head; `row` [head_dim] is overwritten.
template <bool kIsKey, KVStorage KV>
void append_vector(const PagedKVView<KV>& view, KVSlot slot, std::int64_t head, float* row, StoreHalves store_halves) noexcept {
  if constexpr (kStoresHalves<typename KVSide<KV, kIsKey>::Codec>) {
    const KVSide<KV, kIsKey> side(view, slot.block, head);
    const std::int64_t first = side.index(slot.offset, 0);
    const std::int64_t stride = view.dims.head_dim > 1 ? side.index(slot.offset, 1) - first : 1;  // codes of one dim: affine
    store_halves(row, view.dims.head_dim, kIsKey ? view.key_scale : view.value_scale,
                 reinterpret_cast<std::uint16_t*>(side.codes) + first, stride);
  } else {
    using Codec = typename KVSide<KV, kIsKey>::Codec;
    if constexpr (Codec::kRotated) rotate_vector(row, view.dims.head_dim);
    const float scale = kIsKey ? view.key_scale : view.value_scale;
    if (scale != 1.0f) {
      for (std::int64_t d = 0; d < view.dims.head_dim; ++d) row[d] /= scale;
    }
    store_vector<kIsKey>(KVSide<KV, kIsKey>(view, slot.block, head), slot.offset, row);
  }
}

}  // namespace detail

/// Writes keys or values of one head on the calling thread: for an epilogue of another kernel.
template <KVStorage KV, Element X = float>
class AppendHead {
 public:
  explicit AppendHead(const Cpu& cpu) noexcept : store_halves_(cpu.select(IsaTable<detail::StoreHalves>{KVPAGE_ISA_TABLE(store_halves)})) {}

  /// Keys of `head` of tokens [begin, end) of a launch that `validate_launch` accepts.
  void keys(const AppendKvArgs<KV, X>& args, std::int64_t head, std::int64_t begin, std::int64_t end) const noexcept {
    const std::int64_t head_dim = args.view.dims.head_dim;
    float row[kMaxHeadDim];
    float bias[kMaxHeadDim];
    for (std::int64_t i = begin; i < end; ++i) {
      if (args.slots[i] == kNoSlot) continue;
      load(args.k + i * args.k_stride + head * head_dim, head_dim, row);
      if (takes_out_key_bias<KV> && args.key_bias) {
        turned_key_bias(args.key_bias, args.positions[i] / kKeyBiasPageTokens, head, head_dim, bias);
        for (std::int64_t d = 0; d < head_dim; ++d) row[d] -= bias[d];
      }
      detail::append_vector<true>(args.view, args.slots[i], head, row, store_halves_);
    }
  }

  /// The same of values.
  void values(const AppendKvArgs<KV, X>& args, std::int64_t head, std::int64_t begin, std::int64_t end) const noexcept {
    const std::int64_t head_dim = args.view.dims.head_dim;
    float row[kMaxHeadDim];
    for (std::int64_t i = begin; i < end; ++i) {
      if (args.slots[i] == kNoSlot) continue;
      load(args.v + i * args.v_stride + head * head_dim, head_dim, row);
      detail::append_vector<false>(args.view, args.slots[i], head, row, store_halves_);
    }
  }

 private:
  static void load(const Stored<X>* x, std::int64_t head_dim, float* row) noexcept {
    if constexpr (std::is_same_v<Stored<X>, float>) std::copy_n(x, head_dim, row);
    else std::transform(x, x + head_dim, row, [](Stored<X> code) { return ElementCodec<X>::decode(code); });
  }

  detail::StoreHalves store_halves_;
};

/// append_kv to slots that `validate_tables` accepts.
template <KVStorage KV, Element X>
[[nodiscard]] Status append_kv(Cpu& cpu, const AppendKvArgs<KV, X>& args, TablesChecked) noexcept {
  if (const Status status = validate(args); !status.ok()) return status;
  const AppendHead<KV, X> append(cpu);
  cpu.parallel_for(args.num_tokens, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t head = 0; head < args.view.dims.num_kv_heads; ++head) {
      append.keys(args, head, begin, end);
      append.values(args, head, begin, end);
    }
  });
  return {};
}

/// See AppendKvArgs. Threads: one launch at a time per Cpu; tokens are spread over the workers.
template <KVStorage KV, Element X>
[[nodiscard]] Status append_kv(Cpu& cpu, const AppendKvArgs<KV, X>& args) noexcept {
  if (const Status status = validate_launch(args); !status.ok()) return status;
  return append_kv(cpu, args, kTablesChecked);
}

KVPAGE_END_NAMESPACE
