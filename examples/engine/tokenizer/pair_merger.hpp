/// \file merge_symbols: the one merge loop of BPE and SPM: again and again the most urgent pair, the leftmost of equals.
#pragma once

#include "engine/tokenizer/merge_table.hpp"

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace kvpage::engine {

/// A run of text that is one token so far. `id` is kNoToken for text that no token has.
struct Symbol {
  std::uint32_t begin = 0;  ///< in bytes from the start of the word
  std::uint32_t length = 0;
  TokenId id = kNoToken;
};

/// What two neighbouring symbols become.
template <class L>
concept PairLookup = requires(const L& lookup, Symbol s) {
  { lookup(s, s) } -> std::same_as<PairMerge>;
};

/// A pair that may still be there when its turn comes.
struct MergeCandidate {
  std::uint64_t order;   ///< priority, then index of the left symbol
  std::uint32_t length;  ///< of both in bytes; symbols only grow, so the pair is unchanged if its length is
  TokenId id;

  std::uint32_t left() const noexcept { return static_cast<std::uint32_t>(order); }
  friend bool operator>(const MergeCandidate& a, const MergeCandidate& b) noexcept { return a.order > b.order; }
};

/// Memory that merge_symbols reuses, and a count of its steps.
struct MergeScratch {
  struct Neighbours {
    std::uint32_t previous;
    std::uint32_t next;
  };
  std::vector<MergeCandidate> heap;
  std::vector<Neighbours> links;
  std::int64_t steps = 0;
};

/// Up to this many symbols a scan of an array beats a heap.
inline constexpr std::size_t kScannedSymbols = 32;

/// Merges by scanning all pairs for the best one. Cost: O(n^2), n <= kScannedSymbols.
template <PairLookup Lookup>
void merge_by_scanning(std::vector<Symbol>& symbols, const Lookup& lookup, MergeScratch& scratch) {
  std::array<PairMerge, kScannedSymbols> pairs;  // pairs[i]: symbols i and i + 1
  std::size_t count = symbols.size();
  for (std::size_t i = 0; i + 1 < count; ++i) pairs[i] = lookup(symbols[i], symbols[i + 1]);
  while (count > 1) {
    scratch.steps += static_cast<std::int64_t>(count);
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) {
      if (pairs[i].priority < pairs[best].priority) best = i;
    }
    if (pairs[best].priority == kNoMerge) break;
    symbols[best].length += symbols[best + 1].length;
    symbols[best].id = pairs[best].id;
    for (std::size_t i = best + 1; i + 1 < count; ++i) {
      symbols[i] = symbols[i + 1];
      pairs[i - 1] = pairs[i];
    }
    --count;
    if (best > 0) pairs[best - 1] = lookup(symbols[best - 1], symbols[best]);
    if (best + 1 < count) pairs[best] = lookup(symbols[best], symbols[best + 1]);
  }
  symbols.resize(count);
}

/// Merges with a heap of candidates over linked symbols. Cost: O(n log n).
template <PairLookup Lookup>
void merge_by_heap(std::vector<Symbol>& symbols, const Lookup& lookup, MergeScratch& scratch) {
  constexpr std::uint32_t kNone = ~std::uint32_t{0};
  const auto count = static_cast<std::uint32_t>(symbols.size());
  auto& links = scratch.links;
  auto& heap = scratch.heap;
  heap.clear();
  links.resize(count);
  const auto add = [&](std::uint32_t left, std::uint32_t right) {
    ++scratch.steps;
    const PairMerge merge = lookup(symbols[left], symbols[right]);
    if (merge.priority == kNoMerge) return false;
    heap.push_back({std::uint64_t{merge.priority} << 32 | left, symbols[left].length + symbols[right].length, merge.id});
    return true;
  };
  for (std::uint32_t i = 0; i < count; ++i) {
    links[i] = {i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1};
    if (i > 0) add(i - 1, i);
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>{});
  while (!heap.empty()) {
    ++scratch.steps;
    std::pop_heap(heap.begin(), heap.end(), std::greater<>{});
    const MergeCandidate pair = heap.back();
    heap.pop_back();
    const std::uint32_t at = pair.left();
    const auto [before, absorbed] = links[at];
    // An absorbed symbol has length 0.
    if (symbols[at].length == 0 || absorbed == kNone || symbols[at].length + symbols[absorbed].length != pair.length) continue;
    symbols[at].length = pair.length;
    symbols[at].id = pair.id;
    symbols[absorbed].length = 0;
    const std::uint32_t after = links[absorbed].next;
    links[at].next = after;
    if (after != kNone) links[after].previous = at;
    if (before != kNone && add(before, at)) std::push_heap(heap.begin(), heap.end(), std::greater<>{});
    if (after != kNone && add(at, after)) std::push_heap(heap.begin(), heap.end(), std::greater<>{});
  }
  std::erase_if(symbols, [](const Symbol& symbol) { return symbol.length == 0; });
}

/// Merges the symbols of one word in place.
template <PairLookup Lookup>
void merge_symbols(std::vector<Symbol>& symbols, const Lookup& lookup, MergeScratch& scratch) {
  if (symbols.size() <= kScannedSymbols) {
    merge_by_scanning(symbols, lookup, scratch);
  } else {
    merge_by_heap(symbols, lookup, scratch);
  }
}

}  // namespace kvpage::engine
