/// \file FrameEncoder: the changes of the block map from frame to frame as a compact stream of bytes, read by pages/history.js.
#pragma once

#include "engine/trace/block_map.hpp"

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace kvpage::cli {

/// Numbers are LEB128. A frame: evictions, copies, hit tokens, live sequences, number of runs, runs. A run: blocks skipped since the last
/// one, blocks in it - 1, and what all its blocks are now: a head byte, references if there are several, the owner if it is another one
/// than before (as a zigzag difference), and 8 bytes of content key per block if they changed.
class FrameEncoder {
 public:
  /// Bits of the head byte; the lowest two are the state.
  enum Head : std::uint8_t { kFresh = 4, kKeyed = 8, kSeveral = 16, kSameOwner = 32 };

  explicit FrameEncoder(std::int64_t num_blocks) : seen_(static_cast<std::size_t>(num_blocks)) {}

  /// Counted since the last frame.
  void count(const CacheEvent& event);
  /// Ends a frame that began after step `after_step`.
  void end_frame(engine::BlockMap& map, std::uint64_t after_step);

  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }
  /// The first of the frames with the most used blocks; among equals with the most that hold anything.
  [[nodiscard]] std::uint64_t fullest_frame() const noexcept { return fullest_frame_; }

 private:
  /// What the page knows of a block.
  struct Look {
    engine::MappedState state{};
    std::int64_t refs = 0;
    std::uint32_t owner = 0;
    bool fresh = false;
    bool keyed = false;
    std::uint64_t key = 0;
    std::uint64_t taken_step = 0;

    [[nodiscard]] bool joins(const Look& o) const noexcept {
      return state == o.state && refs == o.refs && owner == o.owner && fresh == o.fresh && keyed == o.keyed;
    }
  };

  /// Blocks of a frame.
  struct Fill {
    std::int64_t used = 0;
    std::int64_t held = 0;  ///< not clean
    auto operator<=>(const Fill&) const = default;

    void add(engine::MappedState state, std::int64_t times) noexcept {
      used += state == engine::MappedState::kUsed ? times : 0;
      held += state == engine::MappedState::kClean ? 0 : times;
    }
  };

  /// The block now; nothing when the page would show no difference.
  bool look(const engine::MappedBlock& block, const Look& before, std::uint64_t after_step, Look& now) const;
  void write_run(std::uint32_t first, const std::vector<Look>& run);
  void number(std::uint64_t value);

  std::vector<Look> seen_;
  std::string bytes_;
  std::string runs_;
  std::uint64_t num_runs_ = 0;
  std::uint32_t end_of_last_run_ = 0;
  std::uint32_t last_owner_ = 0;
  std::int64_t num_seqs_ = 0;
  std::uint64_t evictions_ = 0, copies_ = 0, hit_tokens_ = 0;
  Fill fill_, fullest_;
  std::uint64_t num_frames_ = 0, fullest_frame_ = 0;
};

}  // namespace kvpage::cli
