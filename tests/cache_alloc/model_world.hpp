/// \file ModelWorld: everything the model test believes, in one value that a transaction can copy and restore.
#pragma once

#include "cache_alloc/naive_cache.hpp"

namespace kvpage_test {

/// What a failed comparison throws.
struct Mismatch {
  std::string what;
};

inline void require(bool holds, const char* what) {
  if (!holds) throw Mismatch{what};
}
inline void require_equal(std::int64_t real, std::int64_t model, const char* what) {
  if (real != model) throw Mismatch{std::string{what} + ": allocator " + std::to_string(real) + ", model " + std::to_string(model)};
}

/// The cache's model, and what the engine around it knows.
struct ModelWorld {
  struct Raw {
    int cell;
    std::uint32_t block;
    std::uint32_t generation;
  };
  struct Copy {
    int source;
    int target;
    int num_tokens;
  };
  struct Progress {
    int written = 0;    ///< tokens whose K/V lie in the blocks
    int committed = 0;  ///< of these, accepted for good
  };

  NaiveCache cache;
  std::map<int, kvpage::SeqId> seq_ids;
  std::map<int, Progress> progress;
  std::map<int, std::uint32_t> block_of;  ///< cell -> block
  std::vector<Raw> raws;
  std::vector<Copy> copies;  ///< of the open transaction
  std::set<int> cut;         ///< sequences that the open transaction made shorter, also where it had made them longer before
  int next_seq = 0;
};

/// K/V content as one number per (block, offset): a hash of everything up to that token, so that any mix-up shows.
class ShadowMemory {
 public:
  ShadowMemory(int num_blocks, int block_size)
      : block_size_(block_size), cells_(static_cast<std::size_t>(num_blocks * block_size)) {}

  static std::uint64_t content(const std::string& text, int token) {
    return std::hash<std::string_view>{}(std::string_view{text}.substr(0, static_cast<std::size_t>(token) + 2));
  }
  std::uint64_t& at(std::uint32_t block, int offset) {
    return cells_[block * static_cast<std::size_t>(block_size_) + static_cast<std::size_t>(offset)];
  }

 private:
  int block_size_;
  std::vector<std::uint64_t> cells_;
};

}  // namespace kvpage_test
