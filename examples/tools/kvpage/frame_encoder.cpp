#include "tools/kvpage/frame_encoder.hpp"

#include "tools/kvpage/trace_numbers.hpp"

#include <utility>

namespace kvpage::cli {
namespace {

std::uint64_t zigzag(std::int64_t value) { return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63); }

}  // namespace

void FrameEncoder::number(std::uint64_t value) { append_number(runs_, value); }

void FrameEncoder::count(const CacheEvent& event) {
  evictions_ += event.kind == CacheEventKind::kEvict ? 1 : 0;
  copies_ += event.kind == CacheEventKind::kCopy ? 1 : 0;
  if (event.kind == CacheEventKind::kHit) hit_tokens_ += static_cast<std::uint64_t>(event.num_tokens);
  num_seqs_ += event.kind == CacheEventKind::kSeqStart ? 1 : event.kind == CacheEventKind::kSeqEnd ? -1 : 0;
}

bool FrameEncoder::look(const engine::MappedBlock& block, const Look& before, std::uint64_t after_step, Look& now) const {
  now.state = block.state();
  now.refs = static_cast<std::int64_t>(block.owners.size());
  now.owner = block.owners.empty() ? 0 : block.owners.front();
  now.taken_step = block.taken_step;
  now.fresh = block.taken_step != before.taken_step && block.taken_step > after_step;
  now.key = block.content_key;
  now.keyed = now.key != before.key;
  return now.fresh || now.keyed || now.state != before.state || now.refs != before.refs || now.owner != before.owner;
}

void FrameEncoder::end_frame(engine::BlockMap& map, std::uint64_t after_step) {
  std::vector<Look> run;
  std::uint32_t first = 0;
  end_of_last_run_ = 0;
  for (const std::uint32_t b : map.take_changed()) {
    Look now;
    if (!look(map.blocks()[b], seen_[b], after_step, now)) continue;
    fill_.add(seen_[b].state, -1);
    fill_.add(now.state, 1);
    seen_[b] = now;
    if (!run.empty() && (b != first + run.size() || !run.front().joins(now))) write_run(first, std::exchange(run, {}));
    if (run.empty()) first = b;
    run.push_back(now);
  }
  if (!run.empty()) write_run(first, run);
  if (fill_ > fullest_) fullest_ = fill_, fullest_frame_ = num_frames_;
  ++num_frames_;
  for (const std::uint64_t value : {evictions_, copies_, hit_tokens_, static_cast<std::uint64_t>(num_seqs_), num_runs_}) {
    append_number(bytes_, value);
  }
  bytes_ += std::exchange(runs_, {});
  evictions_ = copies_ = hit_tokens_ = num_runs_ = 0;
}

void FrameEncoder::write_run(std::uint32_t first, const std::vector<Look>& run) {
  const Look& all = run.front();
  ++num_runs_;
  number(first - end_of_last_run_);
  number(run.size() - 1);
  end_of_last_run_ = first + static_cast<std::uint32_t>(run.size());
  const bool same_owner = all.owner == last_owner_;
  auto head = static_cast<std::uint8_t>(all.state);
  if (all.fresh) head |= kFresh;
  if (all.keyed) head |= kKeyed;
  if (all.refs > 1) head |= kSeveral;
  if (same_owner) head |= kSameOwner;
  runs_ += static_cast<char>(head);
  if (all.refs > 1) number(static_cast<std::uint64_t>(all.refs));
  if (all.refs > 0 && !same_owner) {
    number(zigzag(std::int64_t{all.owner} - std::int64_t{last_owner_}));
    last_owner_ = all.owner;
  }
  if (!all.keyed) return;
  for (const Look& one : run) {
    for (int shift = 56; shift >= 0; shift -= 8) runs_ += static_cast<char>(one.key >> shift);
  }
}

}  // namespace kvpage::cli
