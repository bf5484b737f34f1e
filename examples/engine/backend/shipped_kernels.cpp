/// The only unit that compiles the tiles of all formats and instruction sets: they are the heaviest code of the library.
#include "engine/backend/shipped_kernels.hpp"

#include <kvpage/kernels/gemm/cpu_shipped_panels.hpp>

namespace kvpage::engine {

Expected<const PanelKernels*, Status> shipped_kernels(const WeightFormatInfo& format) noexcept { return find_panel_kernels(format); }

}  // namespace kvpage::engine
