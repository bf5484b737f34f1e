/// \file warm_up: what a bench does before its clock starts, as the benches of other engines do.
#pragma once

#include "engine/model/language_model.hpp"
#include "engine/sequence_runner.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvpage::cli {

/// touch_pool, which is a cost of the first request that uses a page, and a step of up to `num_tokens` rows, which touches the activations.
/// Nothing of it stays in a cache.
inline void warm_up(engine::LanguageModel& model, std::int64_t num_tokens) {
  model.touch_pool();
  const std::int64_t count = std::min({num_tokens, model.step_tokens(), model.context_tokens()});
  if (count == 0) return;
  engine::SequenceRunner runner(model, /*share_prefixes=*/false);
  // A pool too small for this step, or a kernel that fails: the run itself will say so.
  static_cast<void>(runner.start(std::vector<TokenId>(static_cast<std::size_t>(count)), engine::LogitRows::kLast));
}

}  // namespace kvpage::cli
