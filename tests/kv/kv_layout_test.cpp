/// \file Every layout is a bijection: each code and parameter of a layer has its own place, inside the layer.
#include "support/catch.hpp"

#include <kvpage/kv/kv_formats.hpp>

#include <string>
#include <vector>

using namespace kvpage;

namespace {

/// Claims bits of a layer; fails when a bit is claimed twice or lies outside.
class BitMap {
 public:
  explicit BitMap(std::int64_t bytes) : taken_(static_cast<std::size_t>(8 * bytes), false) {}

  bool claim(std::int64_t first_bit, std::int64_t bits) {
    for (std::int64_t bit = first_bit; bit < first_bit + bits; ++bit) {
      if (bit < 0 || bit >= static_cast<std::int64_t>(taken_.size()) || taken_[static_cast<std::size_t>(bit)]) return false;
      taken_[static_cast<std::size_t>(bit)] = true;
    }
    return true;
  }
  std::int64_t count() const {
    std::int64_t count = 0;
    for (const bool taken : taken_) count += taken ? 1 : 0;
    return count;
  }

 private:
  std::vector<bool> taken_;
};

template <KVLayout Layout, KVCodec Codec, bool kIsKey>
bool claim_side(BitMap& map, const KVDims& dims, const KVSegment& codes, const KVSegment& params) {
  const KVCodeShape shape = code_shape<Codec>(dims.head_dim);
  bool unique = true;
  for (std::int64_t h = 0; h < dims.num_kv_heads; ++h) {
    for (std::int64_t t = 0; t < dims.block_size; ++t) {
      for (std::int64_t d = 0; d < dims.head_dim; ++d) {
        const std::int64_t index = kIsKey ? Layout::key_index(dims, shape, t, d) : Layout::value_index(dims, shape, t, d);
        unique = unique && map.claim(8 * (codes.offset + h * codes.head_stride) + index * shape.bits, shape.bits);
      }
      for (std::int64_t p = 0; p < shape.num_params; ++p) {
        const std::int64_t index = Layout::param_index(dims, shape, t, p);
        unique = unique && map.claim(8 * (params.offset + h * params.head_stride) + 16 * index, 16);
      }
    }
  }
  return unique;
}

template <KVFormat Format, KVLayout Layout>
void check_layout(const KVDims& dims) {
  INFO(std::string(Format::kName) << " " << std::string(Layout::kName) << ", " << dims.num_kv_heads << " heads, head_dim " << dims.head_dim
                                  << ", block size " << dims.block_size);
  const KVLayerMap map = PagedKV<Format, Layout>::layer_map(dims);
  BitMap bits(map.layer_bytes);
  CHECK(claim_side<Layout, typename Format::Key, true>(bits, dims, map.key, map.key_params));
  CHECK(claim_side<Layout, typename Format::Value, false>(bits, dims, map.value, map.value_params));
  CHECK(map.layer_bytes % kKVAlignment == 0);
  CHECK(8 * map.layer_bytes - bits.count() < 8 * 3 * kKVAlignment * dims.num_kv_heads);  // padding: alignment only
  for (const KVSegment* params : {&map.key_params, &map.value_params}) CHECK((params->offset % 2 == 0 && params->head_stride % 2 == 0));
}

}  // namespace

TEST_CASE("kv.layout.every_code_and_parameter_has_its_own_place", "[kv]") {
  for (const std::int64_t head_dim : {8, 64, 80, 96, 256}) {
    for (const std::int64_t block_size : {1, 8, 16, 32, 64}) {
      const KVDims dims{3, head_dim, block_size};
      for_each_type(KVFormats{}, [&]<class Format>() {
        check_layout<Format, TokenMajorLayout>(dims);
        check_layout<Format, HeadMajorLayout>(dims);
        check_layout<Format, KeyTransposedLayout>(dims);
      });
    }
  }
}

TEST_CASE("kv.layout.key_transposed_keeps_sixteen_keys_of_one_dim_together", "[kv]") {
  const KVDims dims{2, 64, 32};
  const KVCodeShape half{16, 1, 0};
  CHECK(KeyTransposedLayout::key_index(dims, half, 5, 3) == 3 * 32 + 5);
  const KVCodeShape dots{8, 4, 1};
  CHECK(KeyTransposedLayout::key_index(dims, dots, 5, 6) == (1 * 32 + 5) * 4 + 2);
  const KVCodeShape nibbles{4, 4, 4};
  CHECK(KeyTransposedLayout::key_index(dims, nibbles, 5, 6) == 2 * ((1 * 32 + 5) * 4 + 2));
  CHECK(KeyTransposedLayout::key_index(dims, nibbles, 5, 38) == 2 * ((1 * 32 + 5) * 4 + 2) + 1);
  CHECK(KeyTransposedLayout::value_index(dims, nibbles, 5, 38) == 2 * (5 * 32 + 6) + 1);
}

TEST_CASE("kv.formats.names_are_unique_and_the_default_is_one_of_them", "[kv]") {
  std::vector<std::string> names;
  for_each_type(KVFormats{}, [&]<class Format>() { names.emplace_back(Format::kName); });
  CHECK(names == std::vector<std::string>{"f32", "f16", "bf16", "fp8", "int8", "int4", "int4-k4"});
  CHECK(DefaultKVFormat::kName == "f16");
  CHECK(ReferenceKVFormat::kName == "f32");
}
