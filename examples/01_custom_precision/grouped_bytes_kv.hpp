/// \file GroupedBytesKV: a user's own precision of keys and values: all that the attention kernels must know of it.
#pragma once

#include <kvpage/kv/kv_format.hpp>
#include <kvpage/precision/minifloat.hpp>

#include <algorithm>
#include <cmath>

namespace own {

/// Bytes, 32 dims to a scale, the scale a half: x = scale * (q - 127), q in [0, 254]. NaN or infinity in a group makes that
/// group's scale NaN, so that the damage stays visible.
struct GroupedBytes {
  using Code = std::uint8_t;
  static constexpr int kBits = 8;
  static constexpr int kDotDims = 4;        // scores are integer dot products, four codes at a time
  static constexpr bool kRotated = false;

  /// The descriptor: with it the library's kernels read the codes in place.
  static constexpr kvpage::KVScaling kScaling{.group_dims = 32, .offset = 127};

  static constexpr std::int64_t num_params(std::int64_t head_dim) noexcept { return (head_dim + 31) / 32; }

  /// x [head_dim] -> codes [head_dim], params [num_params]
  static void encode(const float* x, std::int64_t head_dim, Code* codes, std::uint16_t* params) noexcept {
    for (std::int64_t begin = 0; begin < head_dim; begin += 32) {
      encode_group(x + begin, std::min<std::int64_t>(32, head_dim - begin), codes + begin, params[begin / 32]);
    }
  }

  /// The oracle: the value of dim d.
  static constexpr float decode(Code code, const std::uint16_t* params, std::int64_t d) noexcept {
    return kvpage::decode_half(params[d / 32]) * static_cast<float>(code - 127);
  }

 private:
  static void encode_group(const float* x, std::int64_t size, Code* codes, std::uint16_t& param) noexcept {
    float largest = 0.0f;
    bool finite = true;
    for (std::int64_t d = 0; d < size; ++d) {
      finite = finite && std::isfinite(x[d]);
      largest = std::max(largest, std::fabs(x[d]));
    }
    param = kvpage::encode_half(finite ? largest / 127.0f : NAN);
    const float scale = kvpage::decode_half(param);
    for (std::int64_t d = 0; d < size; ++d) {
      const float level = scale > 0.0f ? std::clamp(x[d] / scale, -127.0f, 127.0f) : 0.0f;
      codes[d] = static_cast<Code>(std::lrint(level) + 127);
    }
  }
};
static_assert(kvpage::ScaledKVCodec<GroupedBytes>);

/// What pools, views and kernels take: the codecs of keys and of values.
struct GroupedBytesKV {
  static constexpr std::string_view kName = "grouped-bytes";
  using Key = GroupedBytes;
  using Value = GroupedBytes;
};
static_assert(kvpage::KVFormat<GroupedBytesKV>);

}  // namespace own
