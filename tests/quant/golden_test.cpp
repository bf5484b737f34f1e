/// \file Every weight format against blocks decoded by an independent implementation.
#include "support/catch.hpp"
#include "support/environment.hpp"

#include <kvpage/quant/weight_formats.hpp>
#include <kvpage/quant/weight_view.hpp>

#include <nlohmann/json.hpp>

#include <bit>
#include <fstream>
#include <string>
#include <vector>

namespace {

nlohmann::json golden_blocks() {
  std::ifstream file(kvpage_test::data_dir() / "golden/gguf_blocks.json");
  REQUIRE(file);
  return nlohmann::json::parse(file);
}

std::vector<std::byte> from_hex(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

/// Index of the first value whose bits differ, or -1.
std::int64_t first_difference(const std::vector<float>& got, const std::vector<float>& want) {
  if (got.size() != want.size()) return 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(got[i]) != std::bit_cast<std::uint32_t>(want[i])) return static_cast<std::int64_t>(i);
  }
  return -1;
}

std::vector<float> wanted_values(const nlohmann::json& entry) {
  std::vector<float> values;
  for (const double value : entry.at("values").get<std::vector<double>>()) values.push_back(static_cast<float>(value));
  return values;
}

}  // namespace

TEST_CASE("quant.golden.values_are_bit_equal", "[quant]") {
  const auto golden = golden_blocks();
  std::size_t checked_formats = 0;
  kvpage::for_each_type(kvpage::WeightFormats{}, [&]<class W>() {
    const std::string name{W::kName};
    INFO(name);
    if (name == "F32" || name == "F16") return;  // not in the golden file; their own tests cover every code
    REQUIRE(golden.contains(name));
    const auto& entry = golden.at(name);
    CHECK(entry.at("block_elements").get<std::int64_t>() == W::kBlockElements);
    CHECK(entry.at("block_bytes").get<std::int64_t>() == W::kBlockBytes);
    const auto bytes = from_hex(entry.at("bytes_hex").get<std::string>());
    const auto want = wanted_values(entry);
    const auto cols = static_cast<std::int64_t>(want.size());
    REQUIRE(static_cast<std::int64_t>(bytes.size()) == cols / W::kBlockElements * W::kBlockBytes);
    std::vector<float> got(want.size());
    kvpage::weight_view<W>(bytes.data(), 1, cols).decode_row(0, got.data());
    CHECK(first_difference(got, want) == -1);
    ++checked_formats;
  });
  CHECK(checked_formats == kvpage::WeightFormats::kSize - 2);
}

TEST_CASE("quant.golden.comparator_rejects_one_changed_bit", "[quant]") {
  const auto want = wanted_values(golden_blocks().at("Q4_K"));
  auto got = want;
  got[700] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(got[700]) ^ 1u);
  CHECK(first_difference(got, want) == 700);
}
