/// \file warm_up: what a bench does before its clock starts, as the benches of other engines do.
#pragma once

#include "engine/language_model.hpp"
#include "engine/sequence_runner.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvpage::cli {

/// Writes once to each memory page of the pool, on the model's workers. The system hands out memory at the first write, which is a cost of
/// the first request that uses a page, not of the kernels.
inline void touch_pool(engine::LanguageModel& model) {
  constexpr std::size_t kSystemPageBytes = 4096;
  model.parallel(model.pool_shape().num_blocks, [&model](std::int64_t block) {
    const auto page = model.page(BlockId{static_cast<std::uint32_t>(block)});
    for (std::size_t i = 0; i < page.size(); i += kSystemPageBytes) {
      volatile std::byte& byte = page[i];
      byte = std::byte{0};
    }
  });
}

/// touch_pool, and a step of up to `num_tokens` rows, for the same reason: it touches the activations. Nothing of it stays in a cache.
inline void warm_up(engine::LanguageModel& model, std::int64_t num_tokens) {
  touch_pool(model);
  const std::int64_t count = std::min({num_tokens, model.step_tokens(), model.context_tokens()});
  if (count == 0) return;
  engine::SequenceRunner runner(model, /*share_prefixes=*/false);
  // A pool too small for this step, or a kernel that fails: the run itself will say so.
  static_cast<void>(runner.start(std::vector<TokenId>(static_cast<std::size_t>(count)), engine::LogitRows::kLast));
}

}  // namespace kvpage::cli
