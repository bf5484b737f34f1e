#include "engine/model/model_matrices.hpp"

#include "engine/model/transformer_weights.hpp"

namespace kvpage::engine {

std::vector<ModelMatrix> model_matrices(const Gguf& file, const ModelSpec& spec) {
  struct NoWeight {};
  std::vector<ModelMatrix> matrices;
  const auto record = [&matrices](const std::string& tensor, const WeightView& view) {
    matrices.push_back({tensor, view});
    return NoWeight{};
  };
  TensorReader tensors(file);
  static_cast<void>(TransformerWeightsReader<NoWeight, const decltype(record)>(spec, tensors, record).read());
  return matrices;
}

}  // namespace kvpage::engine
