/// \file A file cut at any byte, or with any byte changed, is refused or read safely; two independent readers agree.
#include "engine/loader/gguf_header.hpp"
#include "loader/crafted_files.hpp"
#include "loader/streaming_gguf_reader.hpp"
#include "support/catch.hpp"
#include "support/tiny_gguf.hpp"

#include <random>
#include <sstream>

namespace kvpage_test {
namespace {

/// Parses a copy that ends where the bytes end, so that a sanitizer sees every read beyond.
bool loader_accepts(std::string_view bytes) {
  const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
  const std::vector<std::byte> copy(begin, begin + bytes.size());
  return kvpage::engine::parse_gguf(copy, "cut.gguf").has_value();
}

bool streaming_accepts(std::string_view bytes) {
  std::istringstream stream{std::string{bytes}};
  return StreamingGgufReader::verdict(stream).empty();
}

}  // namespace

TEST_CASE("bug.B38.cut_at_each_byte_of_a_generated_model", "[loader]") {
  const std::string whole = tiny_gguf({}).bytes();
  REQUIRE(loader_accepts(whole));
  std::size_t accepted = 0;
  for (std::size_t length = 0; length < whole.size(); ++length) accepted += loader_accepts(std::string_view{whole}.substr(0, length));
  CHECK(accepted == 0);
}

TEST_CASE("loader.cut.both_readers_agree_at_each_byte", "[loader]") {
  const std::string whole = right_file().bytes();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    INFO("length " << length);
    const std::string_view cut = std::string_view{whole}.substr(0, length);
    REQUIRE_FALSE(loader_accepts(cut));
    REQUIRE_FALSE(streaming_accepts(cut));
  }
}

TEST_CASE("loader.change.both_readers_agree_on_each_changed_byte", "[loader]") {
  const std::string whole = right_file().bytes();
  std::size_t accepted = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const int value : {0, 1, 7, 9, 0x20, 0x7f, 0x80, 0xff}) {
      std::string changed = whole;
      changed[i] = static_cast<char>(value);
      INFO("byte " << i << " = " << value);
      const bool verdict = loader_accepts(changed);
      REQUIRE(verdict == streaming_accepts(changed));
      accepted += verdict;
    }
  }
  CHECK(accepted > 0);  // most bytes are text or weights, where every value is right
  CHECK(accepted < whole.size() * 8);
}

TEST_CASE("loader.change.both_readers_agree_on_random_damage", "[loader]") {
  const std::string whole = right_file().bytes();
  const std::uint64_t header_bytes = whole.size() - (32 + 128 + 144);
  std::mt19937_64 random{20'240'614};
  for (int round = 0; round < 20'000; ++round) {
    std::string changed = whole;
    for (std::uint64_t n = 1 + random() % 4; n > 0; --n) changed[random() % header_bytes] = static_cast<char>(random() >> 56);
    if (random() % 4 == 0) changed.resize(random() % changed.size());
    INFO("round " << round);
    REQUIRE(loader_accepts(changed) == streaming_accepts(changed));
  }
}

}  // namespace kvpage_test
