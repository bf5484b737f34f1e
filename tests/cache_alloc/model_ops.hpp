/// \file The operations of the model test: plain numbers, valid in any order and after any deletion, so that failures shrink.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

namespace kvpage_test {

enum class OpKind : std::uint8_t {
  kBegin, kCreate, kAppend, kTruncate, kRelease, kFork, kShare, kMatch, kShareStale, kSeal, kCommitOpen, kAbortOpen, kCommitStep,
  kAbortStep, kRetire, kPublish, kPin, kUnpin, kYield, kReset, kRawAlloc, kRawShare, kRawFree, kRawFreeTwice, kMark, kRollback,
  kProbeOrder, kDeadSeq, kShareInto, kShareForeign, kCreateUnknown, kIntern, kEnd
};

inline constexpr std::array<const char*, static_cast<std::size_t>(OpKind::kEnd)> kOpNames{
    "begin", "create", "append", "truncate", "release", "fork", "share", "match", "share_stale", "seal", "commit_open", "abort_open",
    "commit_step", "abort_step", "retire", "publish", "pin", "unpin", "yield", "reset", "raw_alloc", "raw_share", "raw_free",
    "raw_free_twice", "mark", "rollback", "probe_order", "dead_seq", "share_into", "share_foreign", "create_unknown", "intern"};

/// One operation; the numbers are read modulo what exists when it runs.
struct Op {
  OpKind kind{};
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  std::uint32_t c = 0;
};

/// How often each kind is drawn.
inline constexpr std::array<int, static_cast<std::size_t>(OpKind::kEnd)> kOpWeights{
    3, 3, 34, 5, 9, 5, 20, 5, 4, 6, 5, 8, 26, 9, 8, 40, 10, 4, 4, 1, 6, 2, 5, 2, 4, 4, 2, 2, 1, 1, 1, 1};

inline std::vector<Op> random_ops(std::uint64_t seed, int count) {
  std::mt19937_64 rng{seed};
  std::discrete_distribution<int> kind{kOpWeights.begin(), kOpWeights.end()};
  std::vector<Op> ops(static_cast<std::size_t>(count));
  for (Op& op : ops) {
    op.kind = static_cast<OpKind>(kind(rng));
    op.a = static_cast<std::uint32_t>(rng());
    op.b = static_cast<std::uint32_t>(rng());
    op.c = static_cast<std::uint32_t>(rng());
  }
  return ops;
}

inline void print_ops(const std::vector<Op>& ops) {
  for (const Op& op : ops) std::printf("  {%s, %u, %u, %u}\n", kOpNames[static_cast<std::size_t>(op.kind)], op.a, op.b, op.c);
}

}  // namespace kvpage_test
