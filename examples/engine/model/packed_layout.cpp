#include "engine/model/packed_layout.hpp"

#include "engine/backend/shipped_kernels.hpp"
#include "engine/model/model_matrices.hpp"
#include "engine/backend/packed_weights.hpp"

#include <kvpage/kernels/gemm/cpu_panel_layout.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace kvpage::engine {
namespace {

/// A panel of one step, packed from bytes that a counter gives.
Hash128 sample_panel(const PanelKernels& kernels) {
  std::vector<std::byte> step(static_cast<std::size_t>(kernels.step_bytes));
  std::vector<std::byte> block(static_cast<std::size_t>(kernels.block_bytes));
  std::uint32_t state = 1;
  for (int row = 0; row < kPanelRows; ++row) {
    for (std::byte& b : block) b = static_cast<std::byte>((state = state * 1664525u + 1013904223u) >> 24);
    kernels.write(block.data(), row, step.data());
  }
  return hash128(step);
}

/// The bytes of a number or a hash.
template <class T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace

Hash128 packed_layout(const Gguf& file, const ModelSpec& spec) {
  std::string text(bytes_of(kPanelLayoutVersion));
  for (const auto& [tensor, view] : model_matrices(file, spec)) {
    const std::int64_t bytes = packed_weight_bytes(view);
    // Names end in a zero, which none of them contains.
    text.append(tensor).push_back('\0');
    text.append(view.format->name).push_back('\0');
    for (const std::int64_t number : {view.rows, view.cols, bytes}) text.append(bytes_of(number));
    if (bytes > 0) text.append(bytes_of(sample_panel(**shipped_kernels(*view.format))));
  }
  return hash128(std::as_bytes(std::span(text)));
}

}  // namespace kvpage::engine
