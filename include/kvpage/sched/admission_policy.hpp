/// \file AdmissionPolicy: how many blocks must be free before a request gets a row, as a type.
#pragma once

#include <kvpage/sched/request_record.hpp>

#include <concepts>

KVPAGE_BEGIN_NAMESPACE

/// What an admission decides on. Blocks are missing ones: what the sequence will take beyond those that it has or that its prefix hit
/// has brought. Requests for n answers count n growths.
struct AdmissionView {
  std::int64_t chunk_blocks = 0;   ///< candidate: this step's rows
  std::int64_t prompt_blocks = 0;  ///< candidate: all its present tokens
  std::int64_t full_blocks = 0;    ///< candidate: to the end of its longest answer
  std::int64_t growth_tokens = 0;  ///< candidate: new tokens still allowed, at most 4096 per answer
  std::int64_t running_prompt_blocks = 0;  ///< the same, summed over those that have rows
  std::int64_t running_full_blocks = 0;
  std::int64_t running_growth_tokens = 0;
  std::int64_t num_running = 0;
  std::int64_t block_size = 1;
  std::int64_t num_groups = 1;
};

/// - `needed_blocks(view)`: blocks that must be available. Fewer than chunk_blocks is taken as chunk_blocks.
/// - `on_step()`: a step was committed. `on_preemption(new_tokens, max_new_tokens, num_running)`: someone lost blocks.
template <class A>
concept AdmissionPolicy = std::copy_constructible<A> && requires(A admission, const A c, const AdmissionView& view) {
  { c.needed_blocks(view) } -> std::convertible_to<std::int64_t>;
  admission.on_step();
  admission.on_preemption(std::int64_t{}, std::int64_t{}, std::int64_t{});
};

KVPAGE_END_NAMESPACE
