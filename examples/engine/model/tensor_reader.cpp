#include "engine/model/tensor_reader.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvpage::engine {
namespace {

/// "a, b, c and 4 more": the first names of a list that may be long.
std::string first_names(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kShown) text += " and " + std::to_string(names.size() - kShown) + " more";
  return text;
}

}  // namespace

void TensorReader::fail(LoadError error) { errors_.push_back(std::move(error)); }

const GgufTensor* TensorReader::find(const std::string& name, std::int64_t rows, std::int64_t cols) {
  const GgufTensor* tensor = file_.find_tensor(name);
  if (tensor == nullptr) {
    missing_.push_back(name);
    return nullptr;
  }
  used_.insert(name);
  if (tensor->num_rows() != rows || tensor->row_length() != cols) {
    fail(file_.error("tensor " + name, "shape [" + std::to_string(cols) + ", " + std::to_string(rows) + "]", tensor->shape_text(),
                     "the sizes in the metadata and the tensors disagree: convert the model again, or take another file of it"));
    return nullptr;
  }
  return tensor;
}

WeightView TensorReader::matrix(const std::string& name, std::int64_t rows, std::int64_t cols) {
  const GgufTensor* tensor = find(name, rows, cols);
  return tensor == nullptr ? WeightView{} : tensor->view();
}

std::vector<float> TensorReader::vector(const std::string& name, std::int64_t size, Presence presence) {
  if (presence == Presence::kAbsent || (presence == Presence::kOptional && !has(name))) return {};
  const GgufTensor* tensor = find(name, 1, size);
  if (tensor == nullptr) return {};
  std::vector<std::byte> data(tensor->data.size());
  GgufTensor copy = *tensor;
  copy.data = data;
  auto read = file_.read(tensor->data, data);
  if (read) read = check_scales(copy, file_.path());
  if (!read) {
    fail(std::move(read.error()));
    return {};
  }
  std::vector<float> values(static_cast<std::size_t>(size));
  copy.view().decode_row(0, values.data());
  return values;
}

std::vector<float> TensorReader::divisors(const std::string& name, std::int64_t size, Presence presence) {
  std::vector<float> values = vector(name, size, presence);
  for (const float value : values) {
    if (std::isfinite(value) && value > 0) continue;
    fail(file_.error("tensor " + name, "finite numbers above 0", std::to_string(value),
                     "no model divides by such a number: convert the model again, or take another file of it"));
    break;
  }
  return values;
}

Expected<void, LoadError> TensorReader::finish() const {
  if (!missing_.empty()) {
    return Unexpected{file_.error(std::to_string(missing_.size()) + " tensors", "to be in the file", "missing: " + first_names(missing_),
                                  "the file is incomplete, or not of the architecture that it names")};
  }
  if (!errors_.empty()) return Unexpected{errors_.front()};
  std::vector<std::string> unused;
  for (const GgufTensor& tensor : file_.tensors()) {
    if (!used_.contains(tensor.name)) unused.emplace_back(tensor.name);
  }
  if (unused.empty()) return {};
  return Unexpected{file_.error(std::to_string(unused.size()) + " tensors", "every tensor to be used by the architecture",
                                "not used: " + first_names(unused), "running the model without them would give wrong text")};
}

}  // namespace kvpage::engine
