/// \file VectorStore: norm weights, biases and other small tables of a model, in the memory of its backend.
#pragma once

#include "engine/backend/backend.hpp"

#include <kvpage/base/types.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kvpage::engine {

/// Floats in the memory of a backend; empty = the model has none. Trivially copyable view.
struct StoredVector {
  const float* data = nullptr;  // [size], null if empty
  std::int64_t size = 0;

  bool empty() const noexcept { return size == 0; }
};

/// Owns vectors, several to a buffer. What it has stored lives as long as it.
template <Backend B>
class VectorStore {
 public:
  StoredVector add(B& backend, std::span<const float> values) {
    if (values.empty()) return {};
    const auto bytes = std::as_bytes(values);
    const auto size = static_cast<std::size_t>(round_up(static_cast<std::int64_t>(bytes.size()), kAlignment));
    if (free_.size() < size) {
      buffers_.push_back(backend.allocate(std::max(static_cast<std::int64_t>(size), kBufferBytes)));
      free_ = buffers_.back().span();
    }
    std::byte* place = free_.data();
    backend.upload(place, bytes);
    free_ = free_.subspan(size);
    return {reinterpret_cast<const float*>(place), static_cast<std::int64_t>(values.size())};
  }

 private:
  static constexpr std::int64_t kAlignment = 64;
  static constexpr std::int64_t kBufferBytes = std::int64_t{64} << 10;

  std::vector<typename B::Buffer> buffers_;
  std::span<std::byte> free_;  // the rest of the newest one
};

}  // namespace kvpage::engine
