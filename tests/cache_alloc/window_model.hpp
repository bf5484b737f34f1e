/// \file NaiveWindows: what sequences with sliding-window groups must hold, said with lists. It shares nothing with the allocator but ids.
#pragma once

#include "cache_alloc/naive_cache.hpp"

#include <array>

namespace kvpage_test {

/// A cell stands for one use of one block; kGone stands for a block that a window has passed.
struct NaiveWindows {
  static constexpr int kGone = -1;
  static constexpr int kGroups = 2;

  struct Seq {
    int num_tokens = 0;
    std::array<std::vector<int>, kGroups> cells{};  ///< one per block
    int first_live(int group) const {
      const auto& of = cells[static_cast<std::size_t>(group)];
      return static_cast<int>(std::find_if(of.begin(), of.end(), [](int cell) { return cell != kGone; }) - of.begin());
    }
  };

  int num_blocks = 0, block_size = 0, max_seqs = 0, max_blocks = 0;
  std::array<int, kGroups> windows{};  ///< 0 = none
  std::map<int, Seq> seqs;             ///< by the test's own number
  int next_cell = 0;

  int refs(int cell) const {
    int n = 0;
    for (const auto& [id, seq] : seqs) {
      for (const auto& of : seq.cells) n += static_cast<int>(std::count(of.begin(), of.end(), cell));
    }
    return n;
  }
  std::set<int> used() const {
    std::set<int> cells;
    for (const auto& [id, seq] : seqs) {
      for (const auto& of : seq.cells) cells.insert(of.begin(), of.end());
    }
    cells.erase(kGone);
    return cells;
  }
  int available() const { return num_blocks - static_cast<int>(used().size()); }
  int blocks_of(int num_tokens) const { return (num_tokens + block_size - 1) / block_size; }

  Outcome grow(int id, int num_tokens) {
    Seq& seq = seqs.at(id);
    if (num_tokens < 0) return {"kBadLength", num_tokens, seq.num_tokens};
    if (num_tokens <= seq.num_tokens) return {};
    const int entries = blocks_of(num_tokens);
    if (entries > max_blocks) return {"kTableFull", entries, max_blocks};
    const int need = (entries - blocks_of(seq.num_tokens)) * kGroups;
    if (need > available()) return {"kNoBlocks", need, available()};
    for (auto& of : seq.cells) {
      while (static_cast<int>(of.size()) < entries) of.push_back(next_cell++);
    }
    seq.num_tokens = num_tokens;
    return {};
  }

  /// The next token looks back at W - 1 tokens before it: their blocks must be there.
  Outcome truncate(int id, int num_tokens) {
    Seq& seq = seqs.at(id);
    if (num_tokens < 0 || num_tokens > seq.num_tokens) return {"kBadLength", num_tokens, seq.num_tokens};
    for (int g = 0; g < kGroups; ++g) {
      const int window = windows[static_cast<std::size_t>(g)];
      for (int token = std::max(0, num_tokens - window + 1); window > 0 && token < num_tokens; ++token) {
        if (seq.cells[static_cast<std::size_t>(g)][static_cast<std::size_t>(token / block_size)] == kGone) {
          return {"kBadLength", num_tokens, seq.first_live(g) * block_size};
        }
      }
    }
    for (auto& of : seq.cells) of.resize(static_cast<std::size_t>(blocks_of(num_tokens)));
    seq.num_tokens = num_tokens;
    return {};
  }

  /// A block goes when none of its tokens is among the W that end with `next_token`.
  Outcome release_before(int id, int group, int next_token) {
    Seq& seq = seqs.at(id);
    if (group < 0 || group >= kGroups || next_token < 0 || next_token > seq.num_tokens) {
      return {"kBadLength", next_token, seq.num_tokens};
    }
    auto& of = seq.cells[static_cast<std::size_t>(group)];
    const int window = windows[static_cast<std::size_t>(group)];
    for (std::size_t b = 0; window > 0 && b < of.size(); ++b) {
      const int last_token = (static_cast<int>(b) + 1) * block_size - 1;
      if (last_token <= next_token - window) of[b] = kGone;
    }
    return {};
  }
};

}  // namespace kvpage_test
