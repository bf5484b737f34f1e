/// \file Philox against published vectors, and draws that depend on all of their coordinates.
#include "support/catch.hpp"

#include <kvpage/base/philox.hpp>

#include <array>
#include <set>
#include <vector>

namespace {

using namespace kvpage;

/// Keys that differ from `base` in one coordinate each.
std::vector<DrawKey> neighbours(const DrawKey& base) {
  std::vector<DrawKey> keys(9, base);
  keys[0].seed += 1;
  keys[1].seed += std::uint64_t{1} << 32;
  keys[2].stream = DrawStream::kAccept;
  keys[3].stream = DrawStream::kBonus;
  keys[4].position += 1;
  keys[5].position += 1u << 31;
  keys[6].child += 1;
  keys[7].tree_node += 1;
  keys[8].draw += 1;
  return keys;
}

}  // namespace

// Source: kat_vectors of the Random123 library.
TEST_CASE("base.philox.known_answers", "[base]") {
  STATIC_REQUIRE(philox4x32({{0, 0, 0, 0}}, 0) == PhiloxBlock{{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
  constexpr std::uint32_t kOnes = 0xffffffff;
  STATIC_REQUIRE(philox4x32({{kOnes, kOnes, kOnes, kOnes}}, ~std::uint64_t{0}) ==
                 PhiloxBlock{{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
  STATIC_REQUIRE(philox4x32({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0x299f31d0'a4093822) ==
                 PhiloxBlock{{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});
}

TEST_CASE("base.philox.a_draw_is_the_first_two_words_at_its_coordinates", "[base]") {
  constexpr DrawKey kKey{.seed = 7, .stream = DrawStream::kResample, .position = 11, .child = 2, .tree_node = 5, .draw = 3};
  constexpr PhiloxBlock kBlock = philox4x32({{11, 3u << 24 | 3u, 2, 5}}, 7);
  STATIC_REQUIRE(draw_bits(kKey) == (std::uint64_t{kBlock.word[1]} << 32 | kBlock.word[0]));
  STATIC_REQUIRE(draw_bits({}) == 0xe169c58d'6627e8d5);
}

TEST_CASE("base.philox.every_coordinate_changes_the_draw", "[base]") {
  std::set<std::uint64_t> seen;
  std::size_t keys = 0;
  for (std::uint32_t position = 0; position < 2'000; ++position) {
    const DrawKey base{.seed = 42, .position = 100 * position};
    seen.insert(draw_bits(base));
    ++keys;
    for (const DrawKey& key : neighbours(base)) {
      seen.insert(draw_bits(key));
      ++keys;
    }
  }
  CHECK(seen.size() == keys);
}

TEST_CASE("base.philox.draws_are_uniform_over_positions_seeds_and_children", "[base]") {
  constexpr int kDraws = 256'000;
  for (int axis = 0; axis < 3; ++axis) {
    std::array<int, 256> counts{};
    for (std::uint32_t i = 0; i < kDraws; ++i) {
      DrawKey key{.seed = 99};
      if (axis == 0) key.position = i;
      if (axis == 1) key.seed = i;
      if (axis == 2) key.child = i;
      ++counts[draw_bits(key) >> 56];
    }
    double chi_square = 0.0;
    for (const int count : counts) chi_square += (count - 1000.0) * (count - 1000.0) / 1000.0;
    INFO("axis " << axis);
    CHECK(chi_square < 255 + 5 * 22.6);  // 255 degrees of freedom, 5 standard deviations
  }
}
