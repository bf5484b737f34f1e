/// \file TensorReader: hands out the tensors of a file by name and shape, and knows which ones nobody asked for.
#pragma once

#include "engine/loader/gguf.hpp"
#include "engine/model/model_spec.hpp"

#include <kvpage/quant/weight_view.hpp>

#include <set>
#include <string>
#include <vector>

namespace kvpage::engine {

/// Reads tensors; after the first error every read returns an empty value, so that callers check once, at the end.
class TensorReader {
 public:
  explicit TensorReader(const Gguf& file) : file_(file) {}

  /// The matrix `name` [rows, cols]. Error unless it is there with this shape.
  WeightView matrix(const std::string& name, std::int64_t rows, std::int64_t cols);

  /// The vector `name` [size], decoded; empty if it is absent and may be. Error if a value is NaN or infinite.
  std::vector<float> vector(const std::string& name, std::int64_t size, Presence presence = Presence::kRequired);

  /// The same for divisors: an error unless every value is finite and above 0.
  std::vector<float> divisors(const std::string& name, std::int64_t size, Presence presence);

  bool has(const std::string& name) const { return file_.find_tensor(name) != nullptr; }
  /// 0 if it is absent.
  std::int64_t num_rows(const std::string& name) const { return has(name) ? file_.find_tensor(name)->num_rows() : 0; }

  /// The first error, or the tensors that nobody read ("loaded, never used" is how wrong models look right).
  Expected<void, LoadError> finish() const;

 private:
  const GgufTensor* find(const std::string& name, std::int64_t rows, std::int64_t cols);
  void fail(LoadError error);

  const Gguf& file_;
  std::set<std::string, std::less<>> used_;
  std::vector<std::string> missing_;
  std::vector<LoadError> errors_;
};

}  // namespace kvpage::engine
