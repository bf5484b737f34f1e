#include "engine/trace/recorded_run.hpp"

namespace kvpage::engine {
namespace {

/// Follows the blocks of a trace.
class BlockHistory {
 public:
  BlockHistory(std::int64_t num_blocks, RecordedRun& run)
      : run_(run), map_(num_blocks), states_(static_cast<std::size_t>(num_blocks)) {
    counts_.by_state[0] = num_blocks;
  }

  Expected<void, TraceError> apply(const TraceReader& reader, const TraceLine& line, std::int64_t t_ns) {
    const auto events = reader.events(line);
    if (!events) return Unexpected{events.error()};
    for (const CacheEvent& event : *events) {
      if (const auto problem = map_.apply(event)) return Unexpected{reader.error(line, *problem)};
      changes_.evicted += event.kind == CacheEventKind::kEvict ? 1 : 0;
      changes_.copies += event.kind == CacheEventKind::kCopy ? 1 : 0;
      if (event.kind == CacheEventKind::kCopy) changes_.copied_tokens += event.num_tokens;
    }
    if (line.kind == "seal" || line.kind == "commit" || line.kind == "abort" || line.kind == "capacity") look(t_ns);
    return {};
  }
  /// Keeps what is new since the last look.
  void look(std::int64_t t_ns) {
    const auto before = counts_.by_state;
    for (const std::uint32_t b : map_.take_changed()) {
      --counts_.by_state[static_cast<std::size_t>(states_[b])];
      ++counts_.by_state[static_cast<std::size_t>(states_[b] = map_.blocks()[b].state())];
    }
    counts_.t_ns = changes_.t_ns = t_ns;
    if (run_.block_counts.empty() || counts_.by_state != before) run_.block_counts.push_back(counts_);
    if (changes_.evicted + changes_.copies > 0) run_.block_changes.push_back(changes_);
    changes_ = {};
  }

 private:
  RecordedRun& run_;
  BlockMap map_;
  std::vector<MappedState> states_;
  BlockCounts counts_;
  BlockChanges changes_;
};

}  // namespace

Expected<RecordedRun, TraceError> RecordedRun::read(TraceReader& reader) {
  RecordedRun run;
  BlockHistory blocks{reader.header().num_blocks, run};
  TraceLine line;
  while (true) {
    const auto more = reader.next(line);
    if (!more) return Unexpected{more.error()};
    if (!*more) break;
    if (const auto done = run.timeline.apply(reader, line); !done) return Unexpected{done.error()};
    if (const auto done = blocks.apply(reader, line, run.timeline.end_ns()); !done) return Unexpected{done.error()};
  }
  run.timeline.close();
  blocks.look(run.timeline.end_ns());
  if (run.timeline.steps().empty()) return Unexpected{reader.error(line, "the trace ends without any step: there is no run to show")};
  return run;
}

}  // namespace kvpage::engine
