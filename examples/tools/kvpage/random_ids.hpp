/// \file random_ids: the token ids of timed prompts.
#pragma once

#include <kvpage/base/philox.hpp>
#include <kvpage/base/types.hpp>

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace kvpage::cli {

/// `count` ids in [0, vocab_size), all different as long as there are enough: the start of a seeded shuffle, again and again.
inline std::vector<TokenId> random_ids(std::uint64_t seed, std::int64_t count, std::int64_t vocab_size) {
  std::vector<TokenId> all(static_cast<std::size_t>(vocab_size));
  std::iota(all.begin(), all.end(), TokenId{0});
  std::vector<TokenId> ids;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t first = i % vocab_size;
    const DrawKey key{.seed = seed, .position = static_cast<std::uint32_t>(i)};
    const auto other = first + static_cast<std::int64_t>(draw_bits(key) % static_cast<std::uint64_t>(vocab_size - first));
    std::swap(all[static_cast<std::size_t>(first)], all[static_cast<std::size_t>(other)]);
    ids.push_back(all[static_cast<std::size_t>(first)]);
  }
  return ids;
}

}  // namespace kvpage::cli
