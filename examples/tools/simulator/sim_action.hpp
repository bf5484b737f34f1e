/// \file SimAction: what happens next in a simulated world; a list of them is a trace that replays the run.
#pragma once

#include "tools/simulator/sim_config.hpp"

KVPAGE_BEGIN_NAMESPACE

/// Kinds of actions. From kCancel on they are faults: the kinds of the coverage table.
enum class SimKind : std::uint8_t {
  kSubmit,
  kStep,       ///< plan, seal, run, commit
  kIdle,       ///< time passes
  kCancel,     ///< between steps, while a plan is open, while a step is sealed, or twice; or of a request that has ended
  kPreempt,    ///< row and blocks are taken from outside
  kFlip,       ///< a request gets another priority
  kReset,      ///< every cached prefix is forgotten while sequences run
  kPins,       ///< prefixes are pinned until the limit
  kClockJump,  ///< hours forward, or back
  kRefuse,     ///< the k-th call for blocks or sequences of the next plan is refused
  kDrop,       ///< a plan is thrown away
  kAbort,      ///< a sealed step is thrown away before it ran
  kException,  ///< a sealed step fails half way, its writes half done
  kLost,       ///< a sealed step runs, its result is lost
  kLate,       ///< a result comes after deadlines and cancellations
  kBadRow,     ///< a row cannot be sampled
  kTransferFailed,   ///< pages do not reach the host tier, or do not come back
  kTransferLate,     ///< pages come back after deadlines and cancellations
  kTransferCorrupt,  ///< a page comes back damaged: its checksum differs
  kTierReset,        ///< the host tier forgets everything
};
inline constexpr std::size_t kNumSimKinds = 20;

[[nodiscard]] constexpr const char* name_of(SimKind kind) noexcept {
  constexpr const char* kNames[kNumSimKinds] = {"submit", "step", "idle", "cancel", "preempt", "flip", "reset", "pins", "clock_jump",
                                                "refuse", "drop", "abort", "exception", "lost", "late", "bad_row", "transfer_failed",
                                                "transfer_late", "transfer_corrupt", "tier_reset"};
  return kNames[static_cast<std::size_t>(kind)];
}

/// One action. `a` and `b` are random words that its meaning is drawn from, so that any part of a list is a valid list.
struct SimAction {
  SimKind kind = SimKind::kStep;
  std::uint32_t a = 0;
  std::uint64_t b = 0;
  friend constexpr bool operator==(const SimAction&, const SimAction&) = default;
};

/// The n-th action of a world's own course: mostly steps, now and then a request or a fault that its features allow.
[[nodiscard]] inline SimAction draw_sim_action(SimRandom& random, const SimFeatures& f) {
  const auto a = static_cast<std::uint32_t>(random.next());
  const std::uint64_t b = random.next();
  const std::int64_t roll = random.in(0, 99);
  if (roll < 26) return {SimKind::kSubmit, a, b};
  if (roll < 29) return {SimKind::kIdle, a, b};
  if (roll < 68) return {SimKind::kStep, a, b};
  const struct {
    SimKind kind;
    bool on;
  } faults[] = {{SimKind::kCancel, f.cancels},   {SimKind::kPreempt, f.preemptions}, {SimKind::kFlip, f.flips},
                {SimKind::kReset, f.resets},     {SimKind::kPins, f.pins},           {SimKind::kClockJump, f.clock_jumps},
                {SimKind::kRefuse, f.refusals},  {SimKind::kDrop, f.drops},          {SimKind::kAbort, f.aborts},
                {SimKind::kException, f.exceptions}, {SimKind::kLost, f.lost_results}, {SimKind::kLate, f.late_results},
                {SimKind::kBadRow, f.bad_rows},  {SimKind::kCancel, f.cancels},
                {SimKind::kTransferFailed, f.transfer_faults},  {SimKind::kTransferLate, f.transfer_faults},
                {SimKind::kTransferCorrupt, f.transfer_faults}, {SimKind::kTierReset, f.tier_resets}};
  const auto& fault = faults[static_cast<std::size_t>(random.in(0, f.tier ? 17 : 13))];
  return {fault.on ? fault.kind : SimKind::kStep, a, b};
}

KVPAGE_END_NAMESPACE
