/// \file touch_pool: gives every page of a KV pool its memory before a bench starts its clock.
#pragma once

#include "engine/language_model.hpp"

#include <cstddef>
#include <cstdint>

namespace kvpage::cli {

/// Writes once to each memory page of the pool, on the model's workers. The system hands out memory at the first write, which is a cost of
/// the first request that uses a page, not of the kernels; other engines' benches warm up or clear their caches too.
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

}  // namespace kvpage::cli
