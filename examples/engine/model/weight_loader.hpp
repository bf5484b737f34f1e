/// \file WeightLoader: brings matrices into a backend's form, one after the other, and lets go of the file behind it.
#pragma once

#include "engine/backend/backend.hpp"
#include "engine/loader/gguf.hpp"
#include "engine/loader/progress.hpp"
#include "engine/model/model_matrices.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace kvpage::engine {

/// Memory of all matrices in the form of the backend's kernels.
template <class B>
std::int64_t packed_bytes_of(const std::vector<ModelMatrix>& matrices) {
  std::int64_t bytes = 0;
  for (const ModelMatrix& matrix : matrices) bytes += B::packed_weight_bytes(matrix.view);
  return bytes;
}

/// The `load` of TransformerWeightsReader. Memory during the load stays below weights so far + two slices of tensors: the pages
/// of the file are given back soon after the backend has read them. After the first error the rest is skipped.
template <Backend B>
class WeightLoader {
 public:
  WeightLoader(B& backend, const Gguf& file, const std::vector<ModelMatrix>& matrices, const ProgressCallback& progress)
      : backend_(backend), file_(file), progress_(progress), report_{"loading", 0, file.file_bytes()} {
    backend.reserve_weights(packed_bytes_of<B>(matrices));
  }

  typename B::Weight operator()(const std::string& name, const WeightView& view) {
    if (error_) return {};
    auto weight = backend_.load(view, [this](std::span<const std::byte> consumed) {
      release(consumed);
      advance(static_cast<std::int64_t>(consumed.size()));
    });
    if (!weight) return refuse(name, weight.error());
    if (B::reads_file(*weight)) {  // packing checks scales; what is not packed is checked here
      if (auto finite = check_scales(*file_.find_tensor(name), file_.path()); !finite) return refuse(std::move(finite.error()));
      advance(view.rows * view.row_bytes);
    }
    return std::move(*weight);
  }

  /// The first error, if there was one.
  Expected<void, LoadError> finish() {
    if (error_) return Unexpected{std::move(*error_)};
    if (!read_.empty()) file_.release(std::exchange(read_, {}));
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

  /// Gives read bytes back together with what lies between them and others that were read: each call of the system stops all
  /// workers for a moment, and what was given back too early is read again.
  void release(std::span<const std::byte> read) {
    constexpr std::ptrdiff_t kTogetherBytes = 2 << 20;
    const std::byte* const begin = read_.empty() ? read.data() : std::min(read_.data(), read.data());
    const std::byte* const end = std::max(read_.data() + read_.size(), read.data() + read.size());
    if (!read_.empty() && end - begin > 2 * kTogetherBytes) {
      file_.release(std::exchange(read_, read));
    } else {
      read_ = {begin, end};
    }
    if (std::ssize(read_) >= kTogetherBytes) file_.release(std::exchange(read_, {}));
  }

  void advance(std::int64_t bytes) {
    report_.done_bytes = std::min(report_.done_bytes + bytes, report_.total_bytes);
    if (progress_) progress_(report_);
  }

  B& backend_;
  const Gguf& file_;
  const ProgressCallback& progress_;
  Progress report_;
  std::span<const std::byte> read_;  // not given back yet
  std::optional<LoadError> error_;
};

}  // namespace kvpage::engine
