/// \file Expected: value or error, never both, never unread in silence.
#include <kvpage/base/expected.hpp>

#include "support/catch.hpp"

#include <memory>
#include <stdexcept>
#include <string>

namespace kvpage_test {
namespace {

using kvpage::AssertHandler;
using kvpage::AssertInfo;
using kvpage::Expected;
using kvpage::Unexpected;

/// Turns broken invariants into exceptions for the length of one test.
class ThrowingAsserts {
 public:
  ThrowingAsserts() : previous_(kvpage::set_assert_handler([](const AssertInfo& info) { throw std::logic_error{info.message}; })) {}
  ThrowingAsserts(const ThrowingAsserts&) = delete;
  ThrowingAsserts& operator=(const ThrowingAsserts&) = delete;
  ~ThrowingAsserts() { kvpage::set_assert_handler(previous_); }

 private:
  AssertHandler previous_;
};

constexpr Expected<int, const char*> half(int value) {
  if (value % 2 != 0) return Unexpected{"odd"};
  return value / 2;
}
static_assert(half(6).has_value() && *half(6) == 3);
static_assert(!half(7) && half(7).error()[0] == 'o');
static_assert(half(7).value_or(-1) == -1 && half(8).value_or(-1) == 4);

constexpr Expected<void, int> require_positive(int value) {
  if (value <= 0) return Unexpected{value};
  return {};
}
static_assert(require_positive(1).has_value() && require_positive(-5).error() == -5);

// A value does not silently become an error, nor an error of an unrelated type.
static_assert(!std::is_convertible_v<Unexpected<std::string>, Expected<int, int>>);
static_assert(!std::is_convertible_v<Expected<int, int>, bool>);
static_assert(std::is_same_v<Expected<int, char>::Value, int> && std::is_same_v<Expected<int, char>::Error, char>);

}  // namespace

TEST_CASE("base.expected.same_type_for_value_and_error_stays_apart", "[base]") {
  const Expected<std::string, std::string> good{std::string{"v"}};
  const Expected<std::string, std::string> bad{Unexpected{std::string{"e"}}};
  CHECK(good.has_value());
  CHECK(*good == "v");
  CHECK_FALSE(bad.has_value());
  CHECK(bad.error() == "e");
}

TEST_CASE("base.expected.moves_what_cannot_be_copied", "[base]") {
  Expected<std::unique_ptr<int>, int> value{std::make_unique<int>(7)};
  const std::unique_ptr<int> taken = *std::move(value);
  CHECK(*taken == 7);
  Expected<int, std::unique_ptr<int>> error{Unexpected{std::make_unique<int>(8)}};
  const std::unique_ptr<int> reason = std::move(error).error();
  CHECK(*reason == 8);
}

TEST_CASE("base.expected.value_can_be_changed_in_place", "[base]") {
  Expected<std::string, int> text{std::string{"a"}};
  *text += "b";
  text->push_back('c');
  CHECK(text.value() == "abc");
}

TEST_CASE("base.expected.error_converts_to_a_wider_error", "[base]") {
  const Expected<int, std::string> error{Unexpected{"from a literal"}};
  CHECK(error.error() == "from a literal");
}

TEST_CASE("base.expected.reading_the_absent_side_is_a_broken_invariant", "[base]") {
  const ThrowingAsserts guard;
  const Expected<int, int> good{1};
  const Expected<int, int> bad{Unexpected{2}};
  const Expected<void, int> done;
  const Expected<void, int> failed{Unexpected{3}};
  CHECK_THROWS_AS(good.error(), std::logic_error);
  CHECK_THROWS_AS(bad.value(), std::logic_error);
  CHECK_THROWS_AS(*bad, std::logic_error);
  CHECK_THROWS_AS(done.error(), std::logic_error);
  CHECK_THROWS_AS(failed.value(), std::logic_error);
  CHECK_NOTHROW(done.value());
}

}  // namespace kvpage_test
