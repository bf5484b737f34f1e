/// \file The sampler on the CPU: the next token of a row, the filtered law of a row, and batches of rows.
#pragma once

#include <kvpage/base/philox.hpp>
#include <kvpage/exec/cpu.hpp>
#include <kvpage/kernels/sample/cpu_adjust_logits.hpp>
#include <kvpage/kernels/sample/cpu_select.hpp>

KVPAGE_BEGIN_NAMESPACE

/// A row after mask, bias and penalties, before temperature and filters.
struct AdjustedRow {
  std::span<const float> logits;  // [vocab_size], inside the scratch memory; -infinity = ruled out
  TokenId most_likely;            ///< ties go to the lowest id
};

/// Applies mask, bias and penalties: what beam search ranks by. Requires, Errors, Threads: as `sample_law`. Cost: O(vocab_size).
[[nodiscard]] inline Expected<AdjustedRow, SampleError> adjusted_row(const SampleArgs& args, std::span<std::byte> scratch) noexcept {
  if (!validate(args).ok() || !is_sample_scratch(scratch, args.vocab_size)) {
    return Unexpected{SampleError{SampleError::Kind::kBadArguments}};
  }
  const detail::SampleScratch arrays(scratch.data(), args.vocab_size);
  const auto max = detail::adjust_logits(args, arrays);
  if (!max) return Unexpected{max.error()};
  return AdjustedRow{{arrays.logits, static_cast<std::size_t>(args.vocab_size)}, max->id};
}

/// The law that a row is drawn from, after all filters.
struct RowLaw {
  std::span<const std::uint64_t> weights;  // [vocab_size], inside the scratch memory; P(id) = weights[id] / total
  std::uint64_t total;
  TokenId most_likely;
};

/// Applies everything but the draw; a greedy row gets one token of weight kUnitWeight.
/// Requires: `scratch` holds sample_scratch_bytes(vocab_size), aligned to 8; the result points into it.
/// Errors: SampleError, of this row alone. Threads: any; one scratch per thread. Cost: O(vocab_size) on average, no allocation.
template <FilterOrder Order = TemperatureFirst>
[[nodiscard]] Expected<RowLaw, SampleError> sample_law(const SampleArgs& args, std::span<std::byte> scratch) noexcept {
  const auto row = adjusted_row(args, scratch);
  if (!row) return Unexpected{row.error()};
  const detail::SampleScratch arrays(scratch.data(), args.vocab_size);
  std::uint64_t total = kUnitWeight;
  if (args.params.greedy()) {
    std::fill_n(arrays.weights, args.vocab_size, 0);
    arrays.weights[row->most_likely] = kUnitWeight;
  } else {
    total = detail::final_weights<Order>(args, arrays, row->logits[row->most_likely]);
  }
  return RowLaw{{arrays.weights, static_cast<std::size_t>(args.vocab_size)}, total, row->most_likely};
}

/// The next token of one row: a pure function of the row's own arguments (seed, position and child included).
/// Requires, Errors, Threads, Cost: as `sample_law`.
template <FilterOrder Order = TemperatureFirst>
[[nodiscard]] DrawResult sample_row(const SampleArgs& args, std::span<std::byte> scratch) noexcept {
  if (args.params.greedy()) {
    const auto row = adjusted_row(args, scratch);
    if (!row) return Unexpected{row.error()};
    return row->most_likely;
  }
  const auto law = sample_law<Order>(args, scratch);
  if (!law) return Unexpected{law.error()};
  const DrawKey key{.seed = args.params.seed, .position = args.position, .child = args.child};
  return draw_weighted(law->weights.data(), args.vocab_size, law->total, draw_bits(key));
}

/// Samples every row of a batch to `results` [num_rows]; rows that fail carry their own error.
/// Requires: `scratch` holds sample_scratch_bytes(largest vocab_size) per thread of `cpu`, aligned to 8.
/// Errors: kInvalidArgument if the spans differ in length, kCapacity if `scratch` is too small; then no result is written.
template <FilterOrder Order = TemperatureFirst>
[[nodiscard]] Status sample(Cpu& cpu, std::span<const SampleArgs> rows, std::span<DrawResult> results,
                            std::span<std::byte> scratch) {
  const auto num_rows = static_cast<std::int64_t>(rows.size());
  if (rows.size() != results.size()) {
    return {StatusCode::kInvalidArgument, "one result per row", static_cast<std::int64_t>(results.size()), num_rows};
  }
  std::int64_t bytes = 0;
  for (const SampleArgs& row : rows) {
    bytes = std::max(bytes, sample_scratch_bytes(std::clamp<std::int64_t>(row.vocab_size, 0, kMaxVocabSize)));
  }
  const auto given = static_cast<std::int64_t>(scratch.size());
  if (given < bytes * cpu.num_threads()) {
    return {StatusCode::kCapacity, "sample needs scratch memory for one row per thread", bytes * cpu.num_threads(), given};
  }
  cpu.parallel_for(num_rows, 1, [&](std::int64_t begin, std::int64_t end, int worker) {
    const auto own = scratch.subspan(static_cast<std::size_t>(bytes * worker), static_cast<std::size_t>(bytes));
    for (auto r = static_cast<std::size_t>(begin); r < static_cast<std::size_t>(end); ++r) {
      results[r] = sample_row<Order>(rows[r], own);
    }
  });
  return {};
}

KVPAGE_END_NAMESPACE
