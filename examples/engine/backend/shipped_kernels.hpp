/// \file shipped_kernels: the packed kernels of every shipped weight format, compiled once for all programs that link the engine.
#pragma once

#include <kvpage/base/error.hpp>
#include <kvpage/base/expected.hpp>
#include <kvpage/kernels/gemm/cpu_panel_kernels.hpp>
#include <kvpage/quant/weight_format.hpp>

namespace kvpage::engine {

/// The packed kernels of a shipped format, or the reason why there are none.
[[nodiscard]] Expected<const PanelKernels*, Status> shipped_kernels(const WeightFormatInfo& format) noexcept;

}  // namespace kvpage::engine
