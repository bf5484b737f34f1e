#include "kernels/gemm/packed_fixture.hpp"

#include <kvpage/kernels/gemm/shipped_panels.hpp>

namespace kvpage_test {

std::vector<const kvpage::WeightFormatInfo*> packed_formats() {
  std::vector<const kvpage::WeightFormatInfo*> formats;
  kvpage::for_each_type(kvpage::WeightFormats{}, [&]<class W>() {
    if (kvpage::find_panel_kernels(kvpage::kWeightFormatInfo<W>)) formats.push_back(&kvpage::kWeightFormatInfo<W>);
  });
  return formats;
}

const kvpage::PanelKernels& panel_kernels(const kvpage::WeightFormatInfo& format) { return **kvpage::find_panel_kernels(format); }

const char* no_panel_reason(const kvpage::WeightFormatInfo& format) {
  const auto kernels = kvpage::find_panel_kernels(format);
  return kernels ? "" : kernels.error().message();
}

}  // namespace kvpage_test
