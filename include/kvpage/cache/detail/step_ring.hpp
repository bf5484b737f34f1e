/// \file StepRing: the steps in flight, oldest first, and the lane in which each keeps its copies and pending blocks.
#pragma once

#include <kvpage/cache/block_ids.hpp>
#include <kvpage/cache/detail/block_pool.hpp>

#include <bit>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

struct StepRecord {
  StepId id{};
  std::uint64_t log_end = 0;  ///< undo entries of this step end here
  std::uint64_t log_begin = 0;
  std::uint64_t epoch = 0;  ///< of the index when it was sealed
  std::uint32_t num_copies = 0;
  std::uint32_t stamp = 0;  ///< low bits of its transaction
  std::uint8_t lane = 0;
  bool committed = false;
};

/// At most kMaxSealed steps wait for commit and kMaxInFlight for retire.
class StepRing {
 public:
  static constexpr std::int64_t kMaxSealed = 2;
  static constexpr std::int64_t kMaxInFlight = static_cast<std::int64_t>(kNumLanes) - 1;

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] std::int64_t num_sealed() const noexcept { return size_ - num_committed_; }
  [[nodiscard]] bool full() const noexcept { return num_sealed() >= kMaxSealed || size_ >= kMaxInFlight; }
  [[nodiscard]] const StepRecord& operator[](std::int64_t i) const noexcept { return steps_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] const StepRecord& oldest() const noexcept { return steps_[0]; }
  [[nodiscard]] const StepRecord& oldest_sealed() const noexcept { return (*this)[num_committed_]; }
  [[nodiscard]] const StepRecord& newest() const noexcept { return (*this)[size_ - 1]; }
  /// Lane of blocks released now: they wait for the newest step in flight.
  [[nodiscard]] std::uint8_t release_lane() const noexcept { return release_lane_; }
  /// A lane that no step in flight uses.
  [[nodiscard]] std::uint8_t free_lane() const noexcept { return free_lane_; }

  void push(const StepRecord& step) noexcept {
    steps_[static_cast<std::size_t>(size_++)] = step;
    find_lanes();
  }
  void commit_oldest_sealed() noexcept { steps_[static_cast<std::size_t>(num_committed_++)].committed = true; }
  void pop_newest() noexcept {
    --size_;
    find_lanes();
  }
  void pop_oldest() noexcept {
    for (std::int64_t i = 1; i < size_; ++i) steps_[static_cast<std::size_t>(i - 1)] = (*this)[i];
    --size_;
    --num_committed_;
    find_lanes();
  }

 private:
  void find_lanes() noexcept {
    std::uint32_t taken = 0;
    for (std::int64_t i = 0; i < size_; ++i) taken |= 1u << (*this)[i].lane;
    free_lane_ = static_cast<std::uint8_t>(std::countr_one(taken));
    release_lane_ = size_ == 0 ? kNoLane : newest().lane;
  }

  std::array<StepRecord, static_cast<std::size_t>(kMaxInFlight)> steps_{};
  std::int64_t size_ = 0;
  std::int64_t num_committed_ = 0;
  std::uint8_t free_lane_ = 0;
  std::uint8_t release_lane_ = kNoLane;
};

}  // namespace detail
KVPAGE_END_NAMESPACE
