/// \file Strong ids do not mix; type lists are walked in order; rounding helpers.
#include <kvpage/base/types.hpp>

#include "support/catch.hpp"

#include <string>
#include <type_traits>

namespace kvpage_test {
namespace {

using kvpage::BlockId;
using kvpage::RequestId;
using kvpage::TypeList;

template <class A, class B>
concept Comparable = requires(A a, B b) { a == b; };
template <class A>
concept Incrementable = requires(A a) { ++a; };

static_assert(!std::is_convertible_v<BlockId, RequestId> && !std::is_constructible_v<RequestId, BlockId>);
static_assert(!std::is_convertible_v<std::uint32_t, BlockId> && !std::is_convertible_v<BlockId, std::uint32_t>);
static_assert(!std::is_constructible_v<std::uint32_t, BlockId>);
static_assert(Comparable<BlockId, BlockId> && !Comparable<BlockId, RequestId> && !Comparable<BlockId, std::uint32_t>);
static_assert(!Incrementable<BlockId>);
static_assert(sizeof(BlockId) == 4 && sizeof(RequestId) == 8 && std::is_trivially_copyable_v<BlockId>);
static_assert(BlockId{} == BlockId{0} && BlockId{1} < BlockId{2} && kvpage::kNoBlock != BlockId{0});

struct A {
  static constexpr char kLetter = 'a';
};
struct B {
  static constexpr char kLetter = 'b';
};
static_assert(TypeList<A, B, A>::kSize == 3 && TypeList<>::kSize == 0);

static_assert(kvpage::round_up(0, 16) == 0 && kvpage::round_up(1, 16) == 16 && kvpage::round_up(16, 16) == 16);
static_assert(kvpage::ceil_div(0, 16) == 0 && kvpage::ceil_div(16, 16) == 1 && kvpage::ceil_div(17, 16) == 2);
static_assert(kvpage::round_up((std::int64_t{1} << 40) + 1, 256) == (std::int64_t{1} << 40) + 256);

}  // namespace

TEST_CASE("base.types.lists_are_walked_in_order", "[base]") {
  std::string letters;
  kvpage::for_each_type(TypeList<A, B, B, A>{}, [&]<class T>() { letters += T::kLetter; });
  CHECK(letters == "abba");
  kvpage::for_each_type(TypeList<>{}, [&]<class T>() { letters += "never"; });
  CHECK(letters == "abba");
}

}  // namespace kvpage_test
