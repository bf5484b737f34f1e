/// \file WriteMarks: from which token on each block was overwritten by steps that were taken back.
#pragma once

#include <kvpage/cache/detail/arena.hpp>

#include <algorithm>
#include <limits>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// True when the transaction with this stamp is `since` or a later one. (Stamps have 32 bits; what lies 2^31 transactions back can be
/// taken for later, which costs a recomputation.)
[[nodiscard]] constexpr bool not_before(std::uint32_t stamp, std::uint32_t since) noexcept { return stamp - since < 0x8000'0000u; }

/// One mark per block. Rows that get a block back, or never gave it up, compare their tokens with it.
class WriteMarks {
 public:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  void attach(Arena& arena, std::int64_t num_blocks) { marks_ = arena.cut<Mark>(num_blocks); }

  /// Transaction `stamp` wrote tokens of block b from `offset` on. Marks before `oldest`, the oldest transaction that can still be taken
  /// back, are forgotten.
  void note(std::uint32_t b, std::uint32_t offset, std::uint32_t stamp, std::uint32_t oldest) noexcept {
    Mark& mark = marks_[b];
    mark.offset = not_before(mark.stamp, oldest) ? std::min(mark.offset, offset) : offset;
    mark.stamp = stamp;
  }
  /// First token of block b that `since` or a later transaction overwrote; kNone = not one.
  [[nodiscard]] std::uint32_t overwritten_from(std::uint32_t b, std::uint32_t since) const noexcept {
    return not_before(marks_[b].stamp, since) ? marks_[b].offset : kNone;
  }

 private:
  struct Mark {
    std::uint32_t stamp = 0;
    std::uint32_t offset = kNone;
  };
  std::span<Mark> marks_;  // [num_blocks]
};

}  // namespace detail
KVPAGE_END_NAMESPACE
