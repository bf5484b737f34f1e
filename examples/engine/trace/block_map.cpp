#include "engine/trace/block_map.hpp"

#include <algorithm>
#include <utility>

namespace kvpage::engine {
namespace {

std::string text(BlockId block) { return "block " + std::to_string(block.value); }
std::string text(SeqId seq) { return "sequence " + std::to_string(seq.generation); }

}  // namespace

MappedBlock& BlockMap::change(BlockId block) {
  changed_.push_back(block.value);
  return blocks_[block.value];
}

std::optional<std::string> BlockMap::apply(const CacheEvent& event) {
  step_ = std::max(step_, event.step.value);
  switch (event.kind) {
    case CacheEventKind::kAlloc:
    case CacheEventKind::kShare: return add_reference(event);
    case CacheEventKind::kUnshare:
    case CacheEventKind::kFree: return drop_reference(event);
    case CacheEventKind::kCopy: return start_copy(event);
    case CacheEventKind::kPublish: {
      MappedBlock& block = change(event.block);
      block.findable = true;
      block.content_key = event.content_key;
      return std::nullopt;
    }
    case CacheEventKind::kHide:
    case CacheEventKind::kEvict: change(event.block).findable = false; return std::nullopt;
    case CacheEventKind::kReset: forget_index(); return std::nullopt;
    case CacheEventKind::kSeqStart:
      if (!seqs_.insert(event.seq.generation).second) return text(event.seq) + " starts while it lives";
      return std::nullopt;
    case CacheEventKind::kSeqEnd:
      if (seqs_.erase(event.seq.generation) == 0) return text(event.seq) + " ends, which did not start";
      return std::nullopt;
    case CacheEventKind::kSeal: in_flight_.push_back(event.step.value); return std::nullopt;
    case CacheEventKind::kRetire:
      if (in_flight_.empty() || in_flight_.front() != event.step.value) return "a step retires that is not the oldest in flight";
      in_flight_.pop_front();
      end_step(event.step.value, 0);
      return std::nullopt;
    case CacheEventKind::kAbort:
      if (in_flight_.empty() || in_flight_.back() != event.step.value) return "a step is aborted that is not the newest in flight";
      in_flight_.pop_back();
      end_step(event.step.value, in_flight_.empty() ? 0 : in_flight_.back());
      return std::nullopt;
    default: return std::nullopt;
  }
}

std::optional<std::string> BlockMap::add_reference(const CacheEvent& event) {
  MappedBlock& block = change(event.block);
  if (event.kind == CacheEventKind::kAlloc) {
    if (!block.owners.empty()) return text(event.block) + " is allocated while it is used";
    block.content_key = 0;
    block.findable = false;
    block.taken_step = step_;
  }
  block.owners.push_back(event.seq.generation);
  block.waits_for = 0;
  return std::nullopt;
}

std::optional<std::string> BlockMap::drop_reference(const CacheEvent& event) {
  MappedBlock& block = change(event.block);
  const auto owner = std::find(block.owners.begin(), block.owners.end(), event.seq.generation);
  if (owner == block.owners.end()) {
    return text(event.block) + " loses a reference of " + text(event.seq) + ", which has none";
  }
  block.owners.erase(owner);
  if (block.owners.empty() != (event.kind == CacheEventKind::kFree)) return text(event.block) + " has another number of references";
  if (block.owners.empty() && !in_flight_.empty()) {
    block.waits_for = in_flight_.back();
    waiting_.push_back(event.block.value);
  }
  return std::nullopt;
}

std::optional<std::string> BlockMap::start_copy(const CacheEvent& event) {
  std::vector<std::uint32_t>& owners = change(event.other).owners;
  const auto owner = std::find(owners.begin(), owners.end(), event.seq.generation);
  if (owner == owners.end()) return text(event.other) + " is copied for a sequence that does not hold it";
  *owner = 0;
  return std::nullopt;
}

/// Blocks that wait for `step` wait for `next` now; 0 = no longer.
void BlockMap::end_step(std::uint64_t step, std::uint64_t next) {
  const auto settled = [&](std::uint32_t b) {
    MappedBlock& block = blocks_[b];
    if (block.waits_for == step) block.waits_for = next, changed_.push_back(b);
    return block.waits_for == 0;
  };
  waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(), settled), waiting_.end());
}

void BlockMap::forget_index() {
  for (std::uint32_t b = 0; b < blocks_.size(); ++b) {
    if (blocks_[b].findable) change(BlockId{b}).findable = false;
  }
}

std::vector<std::uint32_t> BlockMap::take_changed() {
  std::sort(changed_.begin(), changed_.end());
  changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
  return std::exchange(changed_, {});
}

CapacitySnapshot BlockMap::recount() const {
  CapacitySnapshot count;
  count.num_blocks = static_cast<std::int64_t>(blocks_.size());
  count.num_seqs = std::ssize(seqs_);
  for (const MappedBlock& block : blocks_) {
    const MappedState state = block.state();
    (state == MappedState::kClean    ? count.clean
     : state == MappedState::kCached ? count.cached
     : state == MappedState::kUsed   ? count.used
                                     : count.pending) += 1;
  }
  return count;
}

}  // namespace kvpage::engine
