/// \file RowJob and RowResult: what is wanted of one row of logits, and what came out. A pure function of the row and the job.
#pragma once

#include <kvpage/kernels/gemm/cpu_row_argmax.hpp>
#include <kvpage/kernels/sample/cpu.hpp>
#include <kvpage/kernels/sample/cpu_log_probs.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace kvpage::engine {

/// What is wanted of a row.
struct RowJob {
  SampleArgs args{};
  bool temperature_last = false;
  bool wants_logprob = false;         ///< of the token drawn
  std::int64_t num_top = 0;           ///< likeliest tokens by the raw logits
  std::int64_t num_continuations = 0; ///< > 0: a beam wants so many; nothing is drawn
  bool idle = false;                  ///< the result is not used
};

/// A token with which a hypothesis may go on.
struct Continuation {
  TokenId id = 0;
  double score = 0;    ///< log-probability after mask, bias and penalties
  double logprob = 0;  ///< by the raw logits
};

/// What a row gave.
struct RowResult {
  std::optional<SampleError> error{};
  TokenId token = 0;
  double logprob = 0;                          ///< 0 unless wanted
  std::vector<TokenLogProb> top{};             ///< likeliest first
  std::vector<Continuation> continuations{};   ///< best first, ties by the lower id
  std::vector<TokenLogProb> order{};           ///< scratch

  /// Takes the memory that `job` needs.
  void prepare(const RowJob& job);
};

/// Does the job. Requires: `scratch` as for sample_row; result.prepare(job). Threads: any. No allocation.
void run_row(const RowJob& job, std::span<std::byte> scratch, RowResult& result) noexcept;

/// Whether the largest logit of the row is all that the job asks for: a greedy draw, or none, from logits as they are.
bool wants_argmax(const RowJob& job) noexcept;
/// run_row of such a job, given the maximum. Requires: wants_argmax(job).
void take_argmax(const RowJob& job, const RowArgmax& maximum, RowResult& result) noexcept;

}  // namespace kvpage::engine
