#include "engine/backend/shipped_kernels.hpp"
#include "kernels/gemm/packed_fixture.hpp"

#include <kvpage/quant/weight_formats.hpp>

namespace kvpage_test {

using kvpage::engine::shipped_kernels;

std::vector<const kvpage::WeightFormatInfo*> packed_formats() {
  std::vector<const kvpage::WeightFormatInfo*> formats;
  kvpage::for_each_type(kvpage::WeightFormats{}, [&]<class W>() {
    if (shipped_kernels(kvpage::kWeightFormatInfo<W>)) formats.push_back(&kvpage::kWeightFormatInfo<W>);
  });
  return formats;
}

const kvpage::PanelKernels& panel_kernels(const kvpage::WeightFormatInfo& format) { return **shipped_kernels(format); }

const char* no_panel_reason(const kvpage::WeightFormatInfo& format) {
  const auto kernels = shipped_kernels(format);
  return kernels ? "" : kernels.error().message();
}

}  // namespace kvpage_test
