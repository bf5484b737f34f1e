/// \file WeightView: shapes, rows, column ranges, slices.
#include "support/catch.hpp"

#include <kvpage/quant/weight_formats.hpp>
#include <kvpage/quant/weight_view.hpp>

#include <random>
#include <string>
#include <vector>

namespace {

using namespace kvpage;

std::vector<std::byte> random_bytes(std::int64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(static_cast<std::size_t>(count));
  for (std::byte& b : bytes) b = static_cast<std::byte>(random() & 0x3F);  // small exponents: no infinity among the scales
  return bytes;
}

/// The row decoded block by block.
template <class W>
std::vector<float> row_by_blocks(const std::byte* row, std::int64_t cols) {
  std::vector<float> out(static_cast<std::size_t>(cols));
  for (std::int64_t b = 0; b < cols / W::kBlockElements; ++b) W::decode(row + b * W::kBlockBytes, out.data() + b * W::kBlockElements);
  return out;
}

}  // namespace

TEST_CASE("bug.B47.rows_of_many_lengths_have_no_wrong_tail", "[quant][bug]") {
  for_each_type(WeightFormats{}, []<class W>() {
    INFO(std::string{W::kName});
    for (const std::int64_t cols : {32, 96, 2'880, 256, 2'304}) {
      if (cols % W::kBlockElements != 0) continue;
      INFO("cols " << cols);
      const std::int64_t row_bytes = cols / W::kBlockElements * W::kBlockBytes;
      const auto bytes = random_bytes(3 * row_bytes, static_cast<std::uint32_t>(cols));
      const WeightView view = weight_view<W>(bytes.data(), 3, cols);
      REQUIRE(view.row_bytes == row_bytes);
      constexpr float kGuard = 12345.0f;
      for (std::int64_t r = 0; r < 3; ++r) {
        std::vector<float> got(static_cast<std::size_t>(cols) + 1, kGuard);
        view.decode_row(r, got.data());
        CHECK(got.back() == kGuard);
        got.pop_back();
        CHECK(got == row_by_blocks<W>(bytes.data() + r * row_bytes, cols));
      }
    }
  });
}

TEST_CASE("bug.B47.rows_that_are_no_whole_blocks_are_refused", "[quant][bug]") {
  const std::byte data[1] = {};
  for_each_type(WeightFormats{}, [&]<class W>() {
    INFO(std::string{W::kName});
    CHECK_NOTHROW(static_cast<void>(weight_view<W>(data, 0, 0)));
    CHECK(weight_row_bytes(kWeightFormatInfo<W>, 512).value() == 512 / W::kBlockElements * W::kBlockBytes);
    if (W::kBlockElements == 1) return;
    CHECK_FALSE(weight_row_bytes(kWeightFormatInfo<W>, 300));
    CHECK_THROWS_AS(static_cast<void>(weight_view<W>(data, 1, 300)), ConfigError);
    if (W::kBlockElements == 256) CHECK_THROWS_AS(static_cast<void>(weight_view<W>(data, 1, 288)), ConfigError);
    if (W::kBlockElements == 32) CHECK(weight_row_bytes(kWeightFormatInfo<W>, 288));
  });
  try {
    static_cast<void>(weight_view<Q4_K>(data, 1, 288));
    FAIL("288 columns were accepted");
  } catch (const ConfigError& error) {
    CHECK(error.value() == 288);
    CHECK(error.limit() == 256);
  }
}

TEST_CASE("quant.weight_view.sizes_that_do_not_fit_are_refused", "[quant]") {
  const std::byte data[1] = {};
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  CHECK_THROWS_AS(static_cast<void>(weight_view<F32Weight>(data, -1, 4)), ConfigError);
  CHECK_THROWS_AS(static_cast<void>(weight_view<F32Weight>(data, 1, -4)), ConfigError);
  CHECK_THROWS_AS(static_cast<void>(weight_view<F32Weight>(data, 1, kHuge)), ConfigError);
  CHECK_THROWS_AS(static_cast<void>(weight_view<F32Weight>(data, kHuge, 4)), ConfigError);
  CHECK_FALSE(weight_row_bytes(kWeightFormatInfo<F32Weight>, kHuge));
}

TEST_CASE("quant.weight_view.column_ranges_and_slices_see_the_same_values", "[quant]") {
  for_each_type(WeightFormats{}, []<class W>() {
    INFO(std::string{W::kName});
    constexpr std::int64_t kRows = 7;
    constexpr std::int64_t kCols = 1'024;
    const auto bytes = random_bytes(kRows * kCols / W::kBlockElements * W::kBlockBytes, 7);
    const WeightView view = weight_view<W>(bytes.data(), kRows, kCols);
    const WeightView slice = view.slice_rows(2, 4);
    CHECK(slice.rows == 4);
    CHECK(slice.format->name == W::kName);
    for (std::int64_t r = 0; r < slice.rows; ++r) {
      std::vector<float> whole(kCols);
      std::vector<float> parts(kCols);
      view.decode_row(r + 2, whole.data());
      slice.decode_row(r, 0, 256, parts.data());
      slice.decode_row(r, 256, 512, parts.data() + 256);
      slice.decode_row(r, 768, 256, parts.data() + 768);
      CHECK(parts == whole);
    }
    CHECK(view.slice_rows(7, 0).rows == 0);
    CHECK(view.row(3) == slice.row(1));
  });
}

TEST_CASE("bug.B47.the_block_of_a_bad_scale_is_named", "[quant][bug]") {
  constexpr std::int64_t kBlocks = 2'000;
  auto bytes = random_bytes(kBlocks * Q6_K::kBlockBytes, 3);
  const WeightFormatInfo& info = *find_weight_format(Q6_K::kGgufType);
  CHECK(info.find_nonfinite(bytes.data(), kBlocks) == kBlocks);
  const auto scale = static_cast<std::size_t>(1'717 * Q6_K::kBlockBytes + 208);
  bytes[scale] = std::byte{0x00};
  bytes[scale + 1] = std::byte{0x7E};
  CHECK(info.find_nonfinite(bytes.data(), kBlocks) == 1'717);
  CHECK(info.find_nonfinite(bytes.data(), 1'717) == 1'717);
  CHECK(info.find_nonfinite(bytes.data(), 0) == 0);
}
