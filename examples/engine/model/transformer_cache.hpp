/// \file TransformerCache: the shape and the identity of the KV cache that a transformer works on.
#pragma once

#include "engine/model/cache_groups.hpp"

#include <kvpage/base/sha256.hpp>
#include <kvpage/kv/kv_pool.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace kvpage::engine {

struct TransformerCache {
  CacheGroups groups{};
  KVPoolShape shape{};  ///< num_layers = groups.layers_per_page
  std::vector<std::byte> identity{};

  /// Sets the identity: the model, then everything that decides what the bytes of a page mean.
  template <KVStorage KV>
  void identify(const Sha256Digest& model) {
    std::string layout = std::string(KV::Format::kName) + ' ' + std::string(KV::Layout::kName);
    for (const std::int64_t n : {shape.block_size, shape.num_layers, shape.num_kv_heads, shape.head_dim}) layout += ' ' + std::to_string(n);
    for (const std::int64_t window : groups.window_tokens) layout += " w" + std::to_string(window);
    identity.assign(model.begin(), model.end());
    for (const char c : layout) identity.push_back(static_cast<std::byte>(c));
  }
};

}  // namespace kvpage::engine
