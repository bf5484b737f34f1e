/// \file StepInputs: the tables of a step in the memory of a backend.
#pragma once

#include "engine/backend/backend.hpp"

#include <kvpage/base/copy_op.hpp>
#include <kvpage/base/types.hpp>
#include <kvpage/kv/kv_slot.hpp>
#include <kvpage/kv/query_span.hpp>
#include <kvpage/sched/batch_plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace kvpage::engine {

/// The tables of one cache group.
struct GroupInputs {
  KVTables tables{};
  const KVSlot* slots = nullptr;  // [num_tokens]
};

/// Everything of a BatchPlan that kernels read, brought there by one upload.
template <Backend B>
class StepInputs {
 public:
  const TokenId* tokens = nullptr;          // [num_tokens]
  const std::int64_t* positions = nullptr;  // [num_tokens]
  const QuerySpan* sequences = nullptr;     // [num_seqs]
  std::span<const CopyOp> copies{};
  std::vector<GroupInputs> groups{};

  /// The former contents are gone.
  void upload(B& backend, const BatchPlan& plan) {
    staged_.clear();
    place(plan.tokens), place(plan.positions), place(plan.sequences), place(plan.kv_lens), place(plan.copies);
    for (const PlannedGroup& group : plan.groups) place(group.indptr), place(group.block_ids), place(group.write_slots);
    if (memory_.span().size() < staged_.size()) memory_ = backend.allocate(static_cast<std::int64_t>(2 * staged_.size()));
    backend.upload(memory_.span().data(), staged_);
    point_into_memory(plan);
  }

 private:
  static constexpr std::size_t kAlignment = 64;

  /// Behind what is staged already, in the order in which point_into_memory takes it.
  template <class T>
  void place(const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    const std::size_t begin = staged_.size();
    staged_.resize(begin + (bytes.size() + kAlignment - 1) / kAlignment * kAlignment);
    if (!bytes.empty()) std::memcpy(staged_.data() + begin, bytes.data(), bytes.size());
  }

  void point_into_memory(const BatchPlan& plan) {
    const std::byte* next = memory_.span().data();
    const auto take = [&next]<class T>(const std::vector<T>& values) {
      const auto* begin = reinterpret_cast<const T*>(next);
      next += (values.size() * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
      return begin;
    };
    tokens = take(plan.tokens);
    positions = take(plan.positions);
    sequences = take(plan.sequences);
    const std::int64_t* kv_lens = take(plan.kv_lens);
    copies = {take(plan.copies), plan.copies.size()};
    groups.resize(plan.groups.size());
    for (std::size_t g = 0; g < groups.size(); ++g) {
      KVTables& tables = groups[g].tables;
      tables = {.kv_lens = kv_lens, .num_seqs = plan.num_seqs()};
      tables.indptr = take(plan.groups[g].indptr);
      tables.block_ids = take(plan.groups[g].block_ids);
      groups[g].slots = take(plan.groups[g].write_slots);
    }
  }

  std::vector<std::byte> staged_;
  typename B::Buffer memory_{};
};

}  // namespace kvpage::engine
