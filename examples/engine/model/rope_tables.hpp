/// \file RopeTables: the rotary frequencies of a kind of layers, and what the KV cache needs of them.
#pragma once

#include "engine/model/model_spec.hpp"
#include "engine/model/vector_store.hpp"

#include <kvpage/kv/key_bias.hpp>

#include <vector>

namespace kvpage::engine {

/// Made once per kind of layer (layers with a window may have their own base).
struct RopeTables {
  /// `factors` [rotary_dim / 2] or empty; `context_tokens` bounds the positions of the key-bias pages, 0 = none are made.
  /// `store(floats)` brings them where the kernels read them.
  template <class Store>
  RopeTables(const ModelSpec& spec, RopeScaling scaling, const std::vector<float>& factors, std::int64_t context_tokens, const Store& store)
      : num_pages(ceil_div(context_tokens, kKeyBiasPageTokens)) {
    scaling.factors = factors;
    frequencies.resize(static_cast<std::size_t>(spec.rotary_dim / 2));
    rope_frequencies(scaling, spec.rotary_dim, frequencies);
    magnitude = rope_magnitude(scaling);
    std::vector<float> rotation(static_cast<std::size_t>(num_pages * spec.rotary_dim));
    fill_page_rotation(frequencies.data(), spec.rotary_dim, num_pages, rotation.data());
    inv_freq = store(frequencies);
    page_rotation = store(rotation);
  }

  std::vector<float> frequencies;  // [rotary_dim / 2], for the host
  StoredVector inv_freq;       // the same for kernels
  StoredVector page_rotation;  // [num_pages, 2, rotary_dim / 2]
  std::int64_t num_pages = 0;
  float magnitude = 1;
};

}  // namespace kvpage::engine
