/// \file find_panel_kernels: the packed kernels of every shipped weight format, by its run-time description.
///
/// Heavy to compile (every tile of every format and instruction set): include it in one source file of a program.
#pragma once

#include <kvpage/kernels/gemm/cpu_packed_weight.hpp>
#include <kvpage/quant/weight_formats.hpp>

KVPAGE_BEGIN_NAMESPACE

/// The packed kernels of a shipped format, or the reason why there are none (then gemm(Cpu&, GemmArgs) can run it).
[[nodiscard]] inline Expected<const PanelKernels*, Status> find_panel_kernels(const WeightFormatInfo& format) noexcept {
  const PanelKernels* found = nullptr;
  for_each_type(WeightFormats{}, [&]<class W>() {
    if constexpr (PanelWeight<W> || PlainWeight<W>) {
      if (format.name == W::kName) found = &kPanelKernels<W>;
    }
  });
  if (found == nullptr) {
    return Unexpected{Status(StatusCode::kUnsupported, "the weight format has no panel shape; only the decoding gemm runs it")};
  }
  return found;
}

KVPAGE_END_NAMESPACE
