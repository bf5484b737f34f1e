/// \file LearnedGrowth: admission that reserves the share of the allowed answers which turned out to be needed.
#pragma once

#include <kvpage/sched/admission_policy.hpp>

#include <algorithm>
#include <cmath>

KVPAGE_BEGIN_NAMESPACE

/// The whole prompt fits, plus `ratio` of the new tokens that all may still make. The ratio falls from `first_ratio` linearly to
/// `final_share` of it in `fall_steps` steps; a preemption raises it to (decoded + 20 per running) /
/// allowed, at most 1.
/// Source: idea and constants of SGLang, managers/new_token_ratio_tracker.py.
struct LearnedGrowth {
  double first_ratio = 0.7;
  double final_share = 0.14;
  std::int64_t fall_steps = 600;
  double ratio = first_ratio;

  [[nodiscard]] std::int64_t needed_blocks(const AdmissionView& view) const noexcept {
    const auto growth = static_cast<double>(view.growth_tokens + view.running_growth_tokens) * ratio;
    const auto blocks = static_cast<std::int64_t>(std::ceil(growth / static_cast<double>(view.block_size))) * view.num_groups;
    return view.prompt_blocks + view.running_prompt_blocks + blocks;
  }
  void on_step() noexcept {
    ratio = std::max(first_ratio * final_share, ratio - first_ratio * (1 - final_share) / static_cast<double>(fall_steps));
  }
  void on_preemption(std::int64_t new_tokens, std::int64_t max_new_tokens, std::int64_t num_running) noexcept {
    const auto wanted = static_cast<double>(new_tokens + 20 * num_running) / static_cast<double>(std::max<std::int64_t>(1, max_new_tokens));
    ratio = std::max(ratio, std::min(wanted, 1.0));
  }
};
static_assert(AdmissionPolicy<LearnedGrowth>);

KVPAGE_END_NAMESPACE
