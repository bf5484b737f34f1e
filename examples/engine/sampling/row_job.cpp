/// \file run_row: a draw, or the best continuations, and the log-probabilities of the raw law.
#include "engine/sampling/row_job.hpp"

#include <limits>

namespace kvpage::engine {
namespace {

bool adjusts(const SampleArgs& args) {
  return !args.allowed.empty() || !args.banned.empty() || !args.params.logit_bias.empty() || args.params.penalizes();
}

/// The law of the raw logits, or null with the row's error.
std::optional<LogSoftmax> law_of(const float* logits, std::int64_t vocab_size, RowResult& result) noexcept {
  const auto law = LogSoftmax::of(logits, vocab_size);
  if (law) return *law;
  result.error = law.error();
  return std::nullopt;
}

/// The likeliest tokens after mask, bias and penalties. Those that the mask took away are none.
void find_continuations(const RowJob& job, std::span<std::byte> scratch, RowResult& result) noexcept {
  const auto row = adjusted_row(job.args, scratch);
  if (!row) {
    result.error = row.error();
    return;
  }
  const auto law = law_of(row->logits.data(), job.args.vocab_size, result);
  const auto raw = adjusts(job.args) ? law_of(job.args.logits, job.args.vocab_size, result) : law;
  if (!law || !raw) return;
  const auto count = static_cast<std::size_t>(law->top(result.order));
  for (const TokenLogProb& next : std::span(result.order).first(count)) {
    if (row->logits[next.id] == -std::numeric_limits<float>::infinity()) break;
    result.continuations.push_back({next.id, next.log_prob, raw->log_prob(next.id)});
  }
}

void draw(const RowJob& job, std::span<std::byte> scratch, RowResult& result) noexcept {
  const DrawResult drawn = job.temperature_last ? sample_row<TemperatureLast>(job.args, scratch) : sample_row(job.args, scratch);
  if (drawn) {
    result.token = *drawn;
  } else {
    result.error = drawn.error();
  }
}

void find_logprobs(const RowJob& job, RowResult& result) noexcept {
  const auto law = law_of(job.args.logits, job.args.vocab_size, result);
  if (!law) return;
  if (job.wants_logprob) result.logprob = law->log_prob(result.token);
  result.top.resize(static_cast<std::size_t>(job.num_top));
  result.top.resize(static_cast<std::size_t>(law->top(result.top)));
}

void clear(RowResult& result) noexcept {
  result.error.reset();
  result.token = 0;
  result.logprob = 0;
  result.top.clear();
  result.continuations.clear();
}

}  // namespace

void RowResult::prepare(const RowJob& job) {
  top.reserve(static_cast<std::size_t>(job.num_top));
  order.resize(static_cast<std::size_t>(job.num_continuations));
  continuations.reserve(static_cast<std::size_t>(job.num_continuations));
}

void run_row(const RowJob& job, std::span<std::byte> scratch, RowResult& result) noexcept {
  clear(result);
  if (job.idle) return;
  if (job.num_continuations > 0) {
    find_continuations(job, scratch, result);
  } else {
    draw(job, scratch, result);
  }
  if (!result.error && (job.wants_logprob || job.num_top > 0)) find_logprobs(job, result);
}

bool wants_argmax(const RowJob& job) noexcept {
  const bool wants_more = job.wants_logprob || job.num_top > 0 || job.num_continuations > 0;
  return job.idle || (job.args.params.greedy() && !adjusts(job.args) && !wants_more);
}

void take_argmax(const RowJob& job, const RowArgmax& maximum, RowResult& result) noexcept {
  clear(result);
  if (job.idle) return;
  const auto id = static_cast<TokenId>(maximum.col());
  if (maximum.is_bad()) {
    result.error = SampleError{SampleError::Kind::kBadLogit, id};
  } else if (maximum.value() == -std::numeric_limits<float>::infinity()) {
    result.error = SampleError{SampleError::Kind::kNothingAllowed};
  } else {
    result.token = id;
  }
}

}  // namespace kvpage::engine
