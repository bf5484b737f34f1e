/// \file PaddedBatch: adds the work that a static batch of padded rows would do, and touches no text.
#pragma once

#include <kvpage/base/error.hpp>
#include <kvpage/sched/batch_plan.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

namespace kvpage::engine {

/// The baseline of the field: a batch whose prompts are padded to the longest one and whose finished rows are computed until the last
/// one has finished. With B answers it computes B * (longest prompt + longest answer - 1) rows, where this engine computes their sum.
/// Given each sealed plan of an engine that runs with the order StaticBatch, it computes the missing rows in steps of their own, as soon
/// as they are known to be missing. They are copies of rows of the plan that write nothing and give no logits.
///
/// What prefix hits save counts as computed, here and there. An answer that is preempted counts as finished until it comes back, so the
/// comparison wants a pool that holds the batch. Threads: one owner.
class PaddedBatch {
 public:
  using Forward = std::function<Status(const BatchPlan&)>;

  /// `forward` runs a step of at most `step_tokens` rows.
  PaddedBatch(Forward forward, std::int64_t step_tokens) : forward_(std::move(forward)), step_tokens_(step_tokens) {}

  /// To be called between the seal of `plan` and its own forward pass. Errors: those of `forward`.
  [[nodiscard]] Status pad(const BatchPlan& plan);

  /// Rows that were added so far.
  [[nodiscard]] std::int64_t padded_rows() const noexcept { return padded_rows_; }

 private:
  /// An answer of the batch, with the rows that were added for it.
  struct Member {
    std::int64_t prompt_tokens = 0;  ///< 0 = not all computed yet
    std::int64_t decoded = 0;        ///< rows after the prompt
    std::int64_t newest_plan = 0;    ///< in which it had rows
  };
  using MemberKey = std::pair<std::uint64_t, std::uint32_t>;  // request, answer

  void join(const BatchPlan& plan);
  std::int64_t missing_rows();
  Status run(const BatchPlan& plan, std::int64_t num_rows);
  void copy_sequence(const BatchPlan& plan, std::size_t s, std::int64_t num_rows);

  Forward forward_;
  std::int64_t step_tokens_;
  std::map<MemberKey, Member> members_;
  std::int64_t num_plans_ = 0;
  std::int64_t padded_rows_ = 0;
  BatchPlan pads_;
};

}  // namespace kvpage::engine
