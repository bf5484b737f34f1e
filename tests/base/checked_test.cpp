/// \file Checked arithmetic at its edges, and Untrusted, which only a range check releases.
#include <kvpage/base/checked.hpp>

#include "support/catch.hpp"

#include <cstdint>
#include <limits>

namespace kvpage_test {
namespace {

using kvpage::checked_add;
using kvpage::checked_cast;
using kvpage::checked_mul;
using kvpage::Untrusted;

template <class T>
inline constexpr T kMax = std::numeric_limits<T>::max();
template <class T>
inline constexpr T kMin = std::numeric_limits<T>::min();

// Nothing can be done with an Untrusted number before it is checked.
template <class T, class U>
concept Multiplies = requires(T a, U b) { a* b; };
template <class T, class U>
concept Adds = requires(T a, U b) { a + b; };
template <class T, class U>
concept Compares = requires(T a, U b) { a < b; };
template <class T>
concept Indexes = requires(T i, int* array) { array[i]; };
using Number = Untrusted<std::uint64_t>;
static_assert(Multiplies<std::uint64_t, std::uint64_t> && Indexes<std::uint64_t>);  // the concepts can say yes
static_assert(!Multiplies<Number, Number> && !Multiplies<Number, std::uint64_t> && !Multiplies<std::uint64_t, Number>);
static_assert(!Adds<Number, Number> && !Adds<Number, int> && !Compares<Number, Number> && !Compares<Number, int>);
static_assert(!Indexes<Number>);
static_assert(!std::is_convertible_v<Number, std::uint64_t> && !std::is_constructible_v<std::uint64_t, Number>);
static_assert(!std::is_convertible_v<std::uint64_t, Number>);

static_assert(*Untrusted<int>{5}.in_range(5, 5) == 5 && !Untrusted<int>{5}.in_range(6, 9) && !Untrusted<int>{5}.in_range(0, 4));
static_assert(Untrusted<int>{-3}.for_message() == -3);
static_assert(checked_mul(Number{6}, std::uint64_t{7})->for_message() == 42);
static_assert(!checked_mul(Number{kMax<std::uint64_t>}, std::uint64_t{2}));

}  // namespace

TEST_CASE("base.checked.equals_wide_arithmetic_for_every_pair_of_small_numbers", "[base]") {
  for (int a = -128; a < 128; ++a) {
    for (int b = -128; b < 128; ++b) {
      const auto x = static_cast<std::int8_t>(a);
      const auto y = static_cast<std::int8_t>(b);
      const auto fits = [](int value) { return value >= -128 && value <= 127; };
      REQUIRE(checked_add(x, y).has_value() == fits(a + b));
      REQUIRE(checked_mul(x, y).has_value() == fits(a * b));
      if (fits(a + b)) REQUIRE(*checked_add(x, y) == a + b);
      if (fits(a * b)) REQUIRE(*checked_mul(x, y) == a * b);
    }
  }
}

TEST_CASE("base.checked.edges_of_64_bits", "[base]") {
  CHECK(*checked_add(kMax<std::int64_t> - 1, std::int64_t{1}) == kMax<std::int64_t>);
  CHECK_FALSE(checked_add(kMax<std::int64_t>, std::int64_t{1}));
  CHECK_FALSE(checked_add(kMin<std::int64_t>, std::int64_t{-1}));
  CHECK_FALSE(checked_add(kMax<std::uint64_t>, std::uint64_t{1}));
  CHECK_FALSE(checked_mul(std::uint64_t{1} << 32, std::uint64_t{1} << 32));
  CHECK(*checked_mul(std::uint64_t{1} << 32, std::uint64_t{1} << 31) == std::uint64_t{1} << 63);
  CHECK_FALSE(checked_mul(kMin<std::int64_t>, std::int64_t{-1}));
  CHECK_FALSE(checked_mul(std::uint64_t{1152}, (std::uint64_t{1} << 54)));
}

TEST_CASE("base.checked.casts_keep_the_value_or_refuse", "[base]") {
  CHECK(*checked_cast<std::uint8_t>(255) == 255);
  CHECK_FALSE(checked_cast<std::uint8_t>(256));
  CHECK_FALSE(checked_cast<std::uint8_t>(-1));
  CHECK(*checked_cast<std::int8_t>(-128L) == -128);
  CHECK_FALSE(checked_cast<std::int8_t>(-129L));
  CHECK_FALSE(checked_cast<std::int64_t>(kMax<std::uint64_t>));
  CHECK(*checked_cast<std::int64_t>(std::uint64_t{1} << 62) == std::int64_t{1} << 62);
  CHECK_FALSE(checked_cast<std::int32_t>(std::int64_t{1} << 31));
  CHECK_FALSE(checked_cast<std::uint64_t>(std::int8_t{-1}));
}

}  // namespace kvpage_test
