/// \file Search for NaN and infinity among the stored scales of tensors.
#include "engine/loader/gguf.hpp"

namespace kvpage::engine {

Expected<void, LoadError> check_scales(const GgufTensor& tensor, const std::string& file) {
  const auto num_blocks = static_cast<std::int64_t>(tensor.data.size()) / tensor.format->block_bytes;
  const std::int64_t bad = tensor.format->find_nonfinite(tensor.data.data(), num_blocks);
  if (bad == num_blocks) return {};
  return Unexpected{LoadError{file, "tensor '" + printable(tensor.name) + "'", "finite scales",
                              "NaN or infinity in block " + std::to_string(bad) + " of " + std::to_string(num_blocks) + " (" +
                                  std::string{tensor.format->name} + ")",
                              "the model was quantised by a faulty tool or is damaged: take another file of it"}};
}

}  // namespace kvpage::engine
