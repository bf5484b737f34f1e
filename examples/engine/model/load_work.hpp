/// \file LoadWork: who does the work of a load, and who hears of it.
#pragma once

#include "engine/backend/indexed_task.hpp"
#include "engine/loader/progress.hpp"

#include <algorithm>
#include <functional>

namespace kvpage::engine {

/// What the parts of a load share.
struct LoadWork {
  std::function<void(std::int64_t, const IndexedTask&)> parallel;  ///< as LanguageModel::parallel
  ProgressCallback progress;
  NoteCallback note;

  void say(std::string_view text) const {
    if (note) note(text);
  }
  void report(std::string_view stage, std::int64_t done_bytes, std::int64_t total_bytes) const {
    if (progress) progress({stage, done_bytes, total_bytes});
  }
};

/// Calls body(i) for every i in [0, n) in parallel, `kReportedPieces` at a time, with a report between: piece i has `piece_bytes` bytes.
template <class Body>
void for_each_piece(const LoadWork& work, std::string_view stage, std::int64_t total_bytes, std::int64_t piece_bytes, const Body& body) {
  constexpr std::int64_t kReportedPieces = 64;
  const std::int64_t n = (total_bytes + piece_bytes - 1) / piece_bytes;
  for (std::int64_t first = 0; first < n; first += kReportedPieces) {
    const std::int64_t count = std::min(kReportedPieces, n - first);
    work.parallel(count, [&](std::int64_t i) { body(first + i); });
    work.report(stage, std::min(total_bytes, (first + count) * piece_bytes), total_bytes);
  }
}

}  // namespace kvpage::engine
