/// \file WeightLoader: brings matrices into a backend's form, one after the other, and reads the file a slice at a time.
#pragma once

#include "engine/backend/backend_traits.hpp"
#include "engine/backend/mapped_memory.hpp"
#include "engine/loader/gguf.hpp"
#include "engine/loader/progress.hpp"
#include "engine/model/model_matrices.hpp"
#include "engine/model/vector_store.hpp"

#include <algorithm>
#include <atomic>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace kvpage::engine {

/// Memory of all matrices in the form of the backend's kernels.
template <Backend B>
std::int64_t packed_bytes_of(const std::vector<ModelMatrix>& matrices) {
  std::int64_t bytes = 0;
  for (const ModelMatrix& matrix : matrices) bytes += BackendTraits<B>::packed_weight_bytes(matrix.view);
  return bytes;
}

/// The `load` of TransformerWeightsReader. Memory during the load is the weights so far and the slice that the backend works on: the
/// file is read into memory of the loader's own, so neither depends on the page cache. After the first error the rest is skipped.
template <Backend B>
class WeightLoader {
 public:
  WeightLoader(B& backend, const Gguf& file, const std::vector<ModelMatrix>& matrices, const ProgressCallback& progress)
      : backend_(backend), file_(file), progress_(progress), report_{"loading", 0, file.file_bytes()} {
    BackendTraits<B>::reserve_weights(backend, packed_bytes_of<B>(matrices));
  }

  typename B::Weight operator()(const std::string& name, const WeightView& view) {
    if (error_) return {};
    auto weight = backend_.load(view, [this](std::span<const std::byte> data) { return fetch(data); });
    if (error_) return {};
    if (!weight) return refuse(name, weight.error());
    if (BackendTraits<B>::reads_file(*weight)) {  // packing checks scales; what is not packed is checked here
      if (auto finite = check_scales(*file_.find_tensor(name), file_.path()); !finite) return refuse(std::move(finite.error()));
      advance(view.rows * view.row_bytes);
    }
    return std::move(*weight);
  }

  StoredVector vector(std::span<const float> values) { return error_ ? StoredVector{} : vectors_.add(backend_, values); }

  /// All vectors so far; they belong to the caller now.
  VectorStore<B> take_vectors() { return std::move(vectors_); }

  /// The first error, if there was one.
  Expected<void, LoadError> finish() {
    if (error_) return Unexpected{std::move(*error_)};
    advance(report_.total_bytes - report_.done_bytes);
    return {};
  }

 private:
  typename B::Weight refuse(LoadError error) {
    error_ = std::move(error);
    return {};
  }

  /// The backend found a scale that is NaN or infinite: the slower search names its block.
  typename B::Weight refuse(const std::string& name, const Status& status) {
    if (auto finite = check_scales(*file_.find_tensor(name), file_.path()); !finite) return refuse(std::move(finite.error()));
    throw std::runtime_error(name + ": " + std::string(status.message()) + " (value " + std::to_string(status.value()) + ")");
  }

  /// `data` in slice_, read in parallel; nothing after an error.
  std::span<const std::byte> fetch(std::span<const std::byte> data) {
    constexpr std::size_t kPieceBytes = std::size_t{256} << 10;
    if (slice_.span().size() < data.size()) slice_ = MappedMemory(std::ssize(data));
    const auto slice = slice_.span().first(data.size());
    std::atomic<bool> failed{false};
    const auto num_pieces = static_cast<std::int64_t>((data.size() + kPieceBytes - 1) / kPieceBytes);
    BackendTraits<B>::parallel(backend_, num_pieces, [&](std::int64_t i) {
      const std::size_t begin = static_cast<std::size_t>(i) * kPieceBytes, size = std::min(kPieceBytes, data.size() - begin);
      if (!file_.read(data.subspan(begin, size), slice.subspan(begin, size))) failed.store(true, std::memory_order_relaxed);
    });
    if (failed.load()) {
      if (auto again = file_.read(data, slice); !again) {  // for its error
        error_ = std::move(again.error());
        return {};
      }
    }
    advance(std::ssize(data));
    return slice;
  }

  void advance(std::int64_t bytes) {
    report_.done_bytes = std::min(report_.done_bytes + bytes, report_.total_bytes);
    if (progress_) progress_(report_);
  }

  B& backend_;
  VectorStore<B> vectors_;
  const Gguf& file_;
  const ProgressCallback& progress_;
  Progress report_;
  MappedMemory slice_;  // what the backend works on
  std::optional<LoadError> error_;
};

}  // namespace kvpage::engine
