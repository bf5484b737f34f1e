/// \file Strong ids and the few plain vocabulary types that every layer shares.
#pragma once

#include <kvpage/base/config.hpp>

#include <compare>
#include <cstddef>
#include <cstdint>

KVPAGE_BEGIN_NAMESPACE

/// A vocabulary entry. Ids are dense in [0, vocab_size).
using TokenId = std::uint32_t;

/// An integer id that converts neither to other ids nor, silently, to integers.
template <class Tag, class Rep = std::uint32_t>
struct StrongId {
  using Value = Rep;
  Rep value{};

  constexpr StrongId() = default;
  KVPAGE_HD constexpr explicit StrongId(Rep v) noexcept : value(v) {}
  friend constexpr auto operator<=>(const StrongId&, const StrongId&) = default;
};

/// One page of the KV pool, in [0, num_blocks).
using BlockId = StrongId<struct BlockIdTag>;
/// A request as its submitter knows it.
using RequestId = StrongId<struct RequestIdTag, std::uint64_t>;

/// "No block here": never a valid page.
inline constexpr BlockId kNoBlock{0xFFFF'FFFFu};

/// A list of types; the lists of precisions and weight formats are TypeLists, read by `for_each_type`.
template <class... T>
struct TypeList {
  static constexpr std::size_t kSize = sizeof...(T);
};

/// Calls `fn.template operator()<T>()` for every T of the list, in order.
template <class... T, class Fn>
constexpr void for_each_type(TypeList<T...>, Fn&& fn) {
  (fn.template operator()<T>(), ...);
}

/// The smallest multiple of `unit` that is >= `value`. Requires: value >= 0, unit > 0, no overflow.
KVPAGE_HD constexpr std::int64_t round_up(std::int64_t value, std::int64_t unit) noexcept {
  return (value + unit - 1) / unit * unit;
}

/// ceil(value / unit). Requires: value >= 0, unit > 0, no overflow.
KVPAGE_HD constexpr std::int64_t ceil_div(std::int64_t value, std::int64_t unit) noexcept {
  return (value + unit - 1) / unit;
}

KVPAGE_END_NAMESPACE
