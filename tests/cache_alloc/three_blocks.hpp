/// \file ThreeBlocks: what two sequences on a pool of three blocks of two tokens must find there, said with strings.
#pragma once

#include "cache_alloc/model_world.hpp"

#include <algorithm>
#include <array>

namespace kvpage_test {

/// Blocks are the allocator's own, written as digits. Which clean block is taken is its choice; everything else is predicted.
struct ThreeBlocks {
  struct Seq {
    bool live = false;
    bool detached = false;
    std::string text;
    std::string blocks;
  };
  struct Hit {
    std::string blocks;
    char half = 0;  ///< block that shares the next token only
  };

  std::array<Seq, 2> seqs;
  std::array<std::string, 3> published;  ///< per block: the prefix under which it is found, or ""
  std::string cached;                    ///< unreferenced published blocks, oldest first
  std::string held;                      ///< references outside of sequences

  [[nodiscard]] std::int64_t refs(char b) const {
    const auto in = [b](const std::string& blocks) { return std::count(blocks.begin(), blocks.end(), b); };
    return in(seqs[0].blocks) + in(seqs[1].blocks) + in(held);
  }
  [[nodiscard]] std::string& prefix(char b) { return published[static_cast<std::size_t>(b - '0')]; }
  [[nodiscard]] std::int64_t used() const { return (refs('0') > 0) + (refs('1') > 0) + (refs('2') > 0); }
  [[nodiscard]] std::int64_t available() const { return 3 - used(); }
  [[nodiscard]] bool is_cached(char b) const { return cached.find(b) != std::string::npos; }
  [[nodiscard]] char find(const std::string& text) const {
    for (std::size_t b = 0; b < 3; ++b) {
      if (published[b] == text) return static_cast<char>('0' + b);
    }
    return 0;
  }

  /// The allocator took block b for new content.
  void take(char b) {
    require(refs(b) == 0, "a block in use is not given to another");
    const bool clean = used() + static_cast<std::int64_t>(cached.size()) < 3;
    require(clean == !is_cached(b), "clean blocks go first");
    if (clean) return;
    const std::string gone = prefix(b);
    require(b == cached[0] || gone.starts_with(prefix(cached[0])), "the oldest cached block goes, or what builds on it");
    for (const char c : cached) require(c == b || !prefix(c).starts_with(gone), "nothing cached builds on a victim");
    for (std::string& p : published) {
      if (p.starts_with(gone)) p.clear();
    }
    std::erase(cached, b);
  }
  void dropped(char b) {
    if (refs(b) == 0 && !prefix(b).empty()) cached += b;
  }
  void wanted(char b) { std::erase(cached, b); }

  void release(std::size_t s) {
    while (!seqs[s].blocks.empty()) {
      const char b = seqs[s].blocks.back();
      seqs[s].blocks.pop_back();
      dropped(b);
    }
    seqs[s] = {};
  }
  void publish(std::size_t s) {
    Seq& seq = seqs[s];
    for (std::size_t i = 0; !seq.detached && 2 * i + 2 <= seq.text.size(); ++i) {
      const char own = seq.blocks[i];
      const char known = find(seq.text.substr(0, 2 * i + 2));
      if (known == 0) prefix(own) = seq.text.substr(0, 2 * i + 2);
      if (known == 0 || known == own) continue;
      wanted(known);
      seq.blocks[i] = known;
      dropped(own);
    }
  }
  [[nodiscard]] Hit match(const std::string& text) const {
    Hit hit;
    std::size_t end = 0;
    for (char b = 0; end < text.size() && (b = find(text.substr(0, end + 2))) != 0; end += 2) hit.blocks += b;
    for (std::size_t b = 0; end < text.size() && b < 3; ++b) {
      if (published[b].size() == end + 2 && published[b].starts_with(text.substr(0, end))) hit.half = static_cast<char>('0' + b);
    }
    return hit;
  }
};

}  // namespace kvpage_test
