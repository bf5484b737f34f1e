/// \file ByteReader, already at compile time; LoadError's text.
#include "engine/loader/byte_reader.hpp"
#include "engine/loader/load_error.hpp"
#include "support/catch.hpp"

#include <array>
#include <limits>

namespace kvpage_test {
namespace {

using kvpage::Untrusted;
using kvpage::engine::ByteReader;
using kvpage::engine::LoadError;
using kvpage::engine::printable;

constexpr std::array<std::byte, 9> kBytes{std::byte{0x01}, std::byte{0x80}, std::byte{0xff}, std::byte{0xff}, std::byte{4},
                                          std::byte{5},    std::byte{6},    std::byte{7},    std::byte{0x89}};

constexpr bool reads_little_endian() {
  ByteReader reader{kBytes};
  const bool numbers = reader.read<std::uint16_t>()->for_message() == 0x8001 && reader.read<std::int16_t>()->for_message() == -1 &&
                       reader.read<std::uint32_t>()->for_message() == 0x07060504u && reader.read<std::int8_t>()->for_message() == -119;
  return numbers && reader.left_bytes() == 0 && reader.offset_bytes() == 9;
}
static_assert(reads_little_endian());

constexpr bool a_failed_read_moves_nothing() {
  ByteReader reader{kBytes};
  if (!reader.read<std::uint64_t>()) return false;
  const auto failed = reader.read<std::uint16_t>();
  return !failed && failed.error().offset_bytes == 8 && failed.error().wanted_bytes == 2 && failed.error().left_bytes == 1 &&
         reader.offset_bytes() == 8 && reader.read<std::uint8_t>().has_value();
}
static_assert(a_failed_read_moves_nothing());

constexpr bool takes_only_what_is_there() {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  ByteReader reader{kBytes};
  return reader.take(3)->size() == 3 && !reader.take(7) && !reader.take(kMax) && !reader.take(Untrusted<std::uint64_t>{kMax}) &&
         reader.take(Untrusted<std::uint64_t>{6})->size() == 6 && reader.take(0)->empty() && !reader.take(1);
}
static_assert(takes_only_what_is_there());

static_assert(!kvpage::engine::StoredInteger<bool> && !kvpage::engine::StoredInteger<float>);

}  // namespace

TEST_CASE("loader.byte_reader.empty_input_gives_nothing", "[loader]") {
  ByteReader reader{{}};
  CHECK_FALSE(reader.read<std::uint8_t>());
  CHECK(reader.take(0));
  CHECK(reader.left_bytes() == 0);
}

TEST_CASE("loader.load_error.is_three_lines_whatever_it_holds", "[loader]") {
  const LoadError error{"a\nb.gguf", "key '" + printable("x\ny\x1b[31m") + "'", "1", "2", "none"};
  CHECK(error.to_string() == "cannot load a?b.gguf: key 'x\\x0ay\\x1b[31m'\n  wanted 1, found 2\n  hint: none");
  CHECK(LoadError{"f", "", "1", "2", "none"}.to_string() == "cannot load f\n  wanted 1, found 2\n  hint: none");
}

TEST_CASE("loader.printable.is_short_and_ascii", "[loader]") {
  CHECK(printable(std::string(1000, 'a')) == std::string(64, 'a') + "...");
  CHECK(printable("plain name.weight") == "plain name.weight");
  CHECK(printable("it's\\\xc3\xa9\x7f") == "it\\x27s\\x5c\\xc3\\xa9\\x7f");
}

}  // namespace kvpage_test
