/// \file ReserveChunk, ReservePrompt, ReserveFull: admission by fixed reservations.
#pragma once

#include <kvpage/sched/admission_policy.hpp>

KVPAGE_BEGIN_NAMESPACE

namespace detail {
struct AdmissionWithoutMemory {
  void on_step() noexcept {}
  void on_preemption(std::int64_t, std::int64_t, std::int64_t) noexcept {}
};
}  // namespace detail

/// The next rows fit. Fullest pool, most preemptions.
struct ReserveChunk : detail::AdmissionWithoutMemory {
  [[nodiscard]] std::int64_t needed_blocks(const AdmissionView& view) const noexcept { return view.chunk_blocks; }
};

/// The whole prompt fits beside the prompts of those that run.
struct ReservePrompt : detail::AdmissionWithoutMemory {
  [[nodiscard]] std::int64_t needed_blocks(const AdmissionView& view) const noexcept {
    return view.prompt_blocks + view.running_prompt_blocks;
  }
};

/// The longest possible answers of all fit: never preempts for want of blocks.
struct ReserveFull : detail::AdmissionWithoutMemory {
  [[nodiscard]] std::int64_t needed_blocks(const AdmissionView& view) const noexcept {
    return view.full_blocks + view.running_full_blocks;
  }
};

static_assert(AdmissionPolicy<ReserveChunk> && AdmissionPolicy<ReservePrompt> && AdmissionPolicy<ReserveFull>);

KVPAGE_END_NAMESPACE
