/// \file model_matrices: the matrices of a model as kernels read them, known without loading it.
#pragma once

#include "engine/loader/gguf.hpp"
#include "engine/model/model_spec.hpp"

#include <kvpage/quant/weight_view.hpp>

#include <string>
#include <vector>

namespace kvpage::engine {

/// A tensor of the file, or those of its rows that make one matrix.
struct ModelMatrix {
  std::string tensor;
  WeightView view;
};

/// In the order in which they are loaded. Requires: check_tensors holds.
std::vector<ModelMatrix> model_matrices(const Gguf& file, const ModelSpec& spec);

}  // namespace kvpage::engine
