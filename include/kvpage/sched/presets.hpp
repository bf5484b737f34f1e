/// \file SchedulerPreset: limits and policies for four typical situations, as plain values.
#pragma once

#include <kvpage/sched/admission_learned_growth.hpp>
#include <kvpage/sched/continuous_scheduler.hpp>
#include <kvpage/sched/order_fcfs.hpp>
#include <kvpage/sched/order_longest_prefix.hpp>

KVPAGE_BEGIN_NAMESPACE

/// A starting point; change any of it. Its scheduler is a ContinuousScheduler<Cache, Policies, Env>{config, cache, policies, env}.
/// What each gains over the defaults is measured by simulator/preset_trials.hpp; a test keeps it.
template <class PoliciesType>
struct SchedulerPreset {
  using Policies = PoliciesType;
  const char* name = "";
  SchedulerConfig config{};
  Policies policies{};
  std::int64_t block_size = 16;   ///< tokens
  std::int64_t pool_tokens = 0;   ///< KV cache from which the preset works well; more never hurts
};

/// Few requests with long text. Prompts come in small chunks, so that a long one does not stall the answers beside it: the longest
/// pause inside an answer falls to a quarter or less, the first token comes about a fifth later.
inline constexpr SchedulerPreset<SchedulerPolicies<Fcfs, LearnedGrowth>> kLongTextPreset{
    .name = "long-text",
    .config = {.budget_tokens = 512, .max_seqs = 16, .max_chunk_tokens = 256},
    .policies = {},
    .block_size = 32,
    .pool_tokens = 131'072};

/// Many short chats. More sequences per step, whose answers are taken to be much shorter than they are allowed to be, and common
/// prompts while they are cached. Where rows are cheap (GPUs) the first token comes several times earlier on average; where every row
/// costs, pauses inside answers are halved. The few whose prompt is not cached wait longer in return.
inline constexpr SchedulerPreset<SchedulerPolicies<LongestPrefix, LearnedGrowth>> kManyChatsPreset{
    .name = "many-chats",
    .config = {.budget_tokens = 512, .max_seqs = 256},
    .policies = {.order = {}, .admission = {.first_ratio = 0.2}, .preemption = {}},
    .block_size = 16,
    .pool_tokens = 65'536};

/// Code: long contexts that many requests share, short answers. Requests whose repository is cached go first, few at a time, so that
/// repositories do not push each other out.
inline constexpr SchedulerPreset<SchedulerPolicies<LongestPrefix, LearnedGrowth>> kCodePreset{
    .name = "code",
    .config = {.budget_tokens = 512, .max_seqs = 32},
    .policies = {.order = {}, .admission = {.first_ratio = 0.2}, .preemption = {}},
    .block_size = 16,
    .pool_tokens = 16'384};

/// A small device. Steps of at most 64 rows: text flows evenly beside a prompt, and activations take a thirty-second of the memory.
inline constexpr SchedulerPreset<SchedulerPolicies<Fcfs, LearnedGrowth>> kEdgePreset{
    .name = "edge",
    .config = {.budget_tokens = 64, .max_seqs = 8, .max_waiting = 64},
    .policies = {},
    .block_size = 16,
    .pool_tokens = 2048};

/// Calls fn(preset) for each of the four.
template <class Fn>
void for_each_scheduler_preset(Fn&& fn) {
  fn(kLongTextPreset), fn(kManyChatsPreset), fn(kCodePreset), fn(kEdgePreset);
}

KVPAGE_END_NAMESPACE
