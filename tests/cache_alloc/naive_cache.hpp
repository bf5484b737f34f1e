/// \file NaiveCache: what a paged prefix cache must do, said with maps. It shares nothing with the allocator but ids.
#pragma once

#include <kvpage/cache/block_ids.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace kvpage_test {

/// Result of a model operation: "" = done, else the refusal with its two numbers.
struct Outcome {
  std::string refusal;
  std::int64_t need = 0;
  std::int64_t available = 0;
  bool ok() const { return refusal.empty(); }
};

/// A cell stands for one use of one block: every allocation makes a new one. Prefixes are strings, namespace first.
struct NaiveCache {
  struct Seq {
    std::string text;        ///< namespace, then one character per token
    std::vector<int> cells;  ///< one per block
    bool detached = false;
    int num_tokens() const { return static_cast<int>(text.size()) - 1; }
  };
  struct Entry {
    int cell;
    int birth;
  };
  struct Hit {
    std::vector<int> cells;  ///< full blocks
    std::string partial;     ///< prefix of the partly matching entry, or ""
    int partial_tokens = 0;
  };

  int num_blocks = 0, block_size = 0, max_seqs = 0;
  int max_blocks = 0;                        ///< of one sequence; 0 = as many as there are
  std::map<int, Seq> seqs;                   ///< by the test's own number
  std::map<std::string, Entry> index;        ///< prefix -> cell
  std::vector<int> lru;                      ///< unreferenced indexed cells, oldest first
  std::map<int, int> held;                   ///< references outside of tables: raw, pins, copies
  std::vector<std::pair<int, int>> pending;  ///< (step, cell)
  std::set<int> in_flight;                   ///< steps
  int next_cell = 0, next_birth = 0;

  int table_refs(int cell) const {
    int n = 0;
    for (const auto& [id, seq] : seqs) n += static_cast<int>(std::count(seq.cells.begin(), seq.cells.end(), cell));
    return n;
  }
  int refs(int cell) const { return table_refs(cell) + (held.count(cell) ? held.at(cell) : 0); }
  std::set<int> used() const {
    std::set<int> cells;
    for (const auto& [id, seq] : seqs) cells.insert(seq.cells.begin(), seq.cells.end());
    for (const auto& [cell, n] : held) cells.insert(cell);
    return cells;
  }
  int clean() const { return num_blocks - static_cast<int>(used().size() + lru.size() + pending.size()); }
  int available() const { return clean() + static_cast<int>(lru.size()); }
  bool indexed(int cell) const {
    return std::any_of(index.begin(), index.end(), [&](const auto& e) { return e.second.cell == cell; });
  }
  void unindex(int cell) {
    std::erase_if(index, [&](const auto& e) { return e.second.cell == cell; });
  }

  int take() {
    if (clean() == 0) evict();
    return next_cell++;
  }
  const std::string& prefix_of(int cell) const {
    return std::find_if(index.begin(), index.end(), [&](const auto& e) { return e.second.cell == cell; })->first;
  }
  /// The oldest cached cell goes, after cached cells that build on it, and together with whatever else builds on it.
  int evict() {
    int victim = lru.front();
    for (int next = victim; next >= 0;) {
      victim = next;
      next = -1;
      for (const auto& [prefix, entry] : index) {
        if (std::count(lru.begin(), lru.end(), entry.cell) == 0 || !is_child(prefix, prefix_of(victim))) continue;
        if (next < 0 || entry.birth > index.at(prefix_of(next)).birth) next = entry.cell;
      }
    }
    const std::string gone = prefix_of(victim);
    std::erase(lru, victim);
    const bool whole = (gone.size() - 1) % static_cast<std::size_t>(block_size) == 0;  // nothing builds on a partial leaf
    std::erase_if(index, [&](const auto& e) { return whole ? e.first.starts_with(gone) : e.first == gone; });
    return victim;
  }
  bool is_child(const std::string& prefix, const std::string& parent) const {
    const auto block = static_cast<std::size_t>(block_size);
    return (parent.size() - 1) % block == 0 && prefix.starts_with(parent) && prefix.size() > parent.size() &&
           prefix.size() <= parent.size() + block;
  }
  /// Call after a reference to the cell went away.
  void dropped(int cell) {
    if (refs(cell) > 0) return;
    if (!in_flight.empty()) {
      pending.emplace_back(*in_flight.rbegin(), cell);
    } else if (indexed(cell)) {
      lru.push_back(cell);
    }
  }
  /// Call before a reference is added.
  void wanted(int cell) {
    std::erase(lru, cell);
    std::erase_if(pending, [&](const auto& p) { return p.second == cell; });
  }
  void hold(int cell) { wanted(cell), ++held[cell]; }
  void unhold(int cell) {
    if (--held[cell] == 0) held.erase(cell);
    dropped(cell);
  }

  Outcome grow(int id, const std::string& more) {
    Seq& seq = seqs[id];
    const int entries = (seq.num_tokens() + static_cast<int>(more.size()) + block_size - 1) / block_size;
    if (max_blocks > 0 && entries > max_blocks) return {"kTableFull", entries, max_blocks};
    const int need = entries - static_cast<int>(seq.cells.size());
    if (need > available()) return {"kNoBlocks", need, available()};
    for (int i = 0; i < need; ++i) {
      const int cell = take();
      seq.cells.push_back(cell);
    }
    seq.text += more;
    return {};
  }
  bool exclusive(int cell) const { return table_refs(cell) == 1 && !indexed(cell); }
  void truncate(int id, int num_tokens) {
    Seq& seq = seqs[id];
    seq.text.resize(static_cast<std::size_t>(num_tokens) + 1);
    while (static_cast<int>(seq.cells.size()) * block_size >= num_tokens + block_size) {
      const int cell = seq.cells.back();
      seq.cells.pop_back();
      dropped(cell);
    }
  }
  void release(int id) { truncate(id, 0), seqs.erase(id); }

  Hit match(const std::string& text) const {
    Hit hit;
    std::size_t length = 1;
    for (; length + static_cast<std::size_t>(block_size) <= text.size(); length += static_cast<std::size_t>(block_size)) {
      const auto found = index.find(text.substr(0, length + static_cast<std::size_t>(block_size)));
      if (found == index.end()) break;
      hit.cells.push_back(found->second.cell);
    }
    std::vector<std::pair<int, std::string>> children;  // newest first
    for (const auto& [prefix, entry] : index) {
      if (is_child(prefix, text.substr(0, length))) children.emplace_back(-entry.birth, prefix);
    }
    std::sort(children.begin(), children.end());
    if (children.size() > 8) children.resize(8);
    for (const auto& [birth, prefix] : children) {
      std::size_t end = length;
      while (end < std::min(prefix.size(), text.size()) && prefix[end] == text[end]) ++end;
      const int common = static_cast<int>(end - length);
      if (common > hit.partial_tokens && common < block_size) hit.partial_tokens = common, hit.partial = prefix;
    }
    return hit;
  }

  /// Returns the number of adopted blocks.
  int publish(int id, int committed, bool partial_tail) {
    Seq& seq = seqs[id];
    int adopted = 0;
    for (int i = 0; !seq.detached && i * block_size < committed; ++i) {
      const int end = std::min((i + 1) * block_size, committed);
      const std::string prefix = seq.text.substr(0, static_cast<std::size_t>(end) + 1);
      int& cell = seq.cells[static_cast<std::size_t>(i)];
      if (end % block_size != 0) {
        const bool known = std::any_of(index.begin(), index.end(), [&](const auto& e) {
          return e.first.starts_with(prefix) && static_cast<int>(e.first.size()) <= (i + 1) * block_size + 1;
        });
        if (!partial_tail || known || indexed(cell)) break;
      }
      const auto found = index.find(prefix);
      if (found == index.end() && indexed(cell)) break;
      if (found == index.end()) {
        index[prefix] = {cell, next_birth++};
      } else if (found->second.cell != cell) {
        if (indexed(cell)) break;
        const int mine = cell;
        wanted(found->second.cell);
        cell = found->second.cell;
        dropped(mine);
        ++adopted;
      }
    }
    return adopted;
  }
};

}  // namespace kvpage_test
