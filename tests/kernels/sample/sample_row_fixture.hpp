/// \file A row to sample that owns its memory.
#pragma once

#include <kvpage/kernels/sample/cpu.hpp>
#include <kvpage/kernels/sample/reference.hpp>

#include <limits>
#include <vector>

namespace kvpage_test {

inline constexpr float kNever = -std::numeric_limits<float>::infinity();

/// Scratch memory for one row, aligned to 8 bytes.
inline std::vector<std::uint64_t> make_scratch(std::int64_t vocab_size, std::int64_t num_threads = 1) {
  return std::vector<std::uint64_t>(static_cast<std::size_t>(kvpage::sample_scratch_bytes(vocab_size) * num_threads / 8));
}

/// Everything a SampleArgs points to.
struct SampleRow {
  std::vector<float> logits{};
  kvpage::SamplingParams params{};
  std::vector<kvpage::TokenId> prompt_ids{};
  std::vector<kvpage::TokenId> output_ids{};
  std::vector<kvpage::LogitBias> bias{};
  std::vector<kvpage::TokenId> banned{};
  std::vector<std::uint32_t> allowed{};
  std::uint32_t position = 0;
  std::uint32_t child = 0;

  std::int64_t vocab_size() const { return static_cast<std::int64_t>(logits.size()); }

  kvpage::SampleArgs args() const {
    kvpage::SampleArgs args{.logits = logits.data(), .vocab_size = vocab_size(), .params = params, .prompt_ids = prompt_ids,
                            .output_ids = output_ids, .allowed = allowed, .banned = banned, .position = position, .child = child};
    args.params.logit_bias = bias;
    return args;
  }

  template <kvpage::FilterOrder Order = kvpage::TemperatureFirst>
  kvpage::DrawResult sample() const {
    auto scratch = make_scratch(vocab_size());
    return kvpage::sample_row<Order>(args(), std::as_writable_bytes(std::span(scratch)));
  }

  /// The ids that can be drawn at all, ascending.
  template <kvpage::FilterOrder Order = kvpage::TemperatureFirst>
  std::vector<kvpage::TokenId> support() const {
    auto scratch = make_scratch(vocab_size());
    const auto law = kvpage::sample_law<Order>(args(), std::as_writable_bytes(std::span(scratch)));
    std::vector<kvpage::TokenId> ids;
    for (std::size_t id = 0; id < logits.size(); ++id) {
      if (law.value().weights[id] > 0) ids.push_back(static_cast<kvpage::TokenId>(id));
    }
    return ids;
  }
};

/// Ids first, first + 1, ..., last.
inline std::vector<kvpage::TokenId> ids_between(kvpage::TokenId first, kvpage::TokenId last) {
  std::vector<kvpage::TokenId> ids;
  for (kvpage::TokenId id = first; id <= last; ++id) ids.push_back(id);
  return ids;
}

}  // namespace kvpage_test
