/// \file Prints each shipped weight format that packs into panels with what its tile is compiled for, one JSON line each: what
/// isa_regions.py looks for in a program. A shape's numbers stand in the order of PanelShape's members.
#include <kvpage/quant/weight_formats.hpp>

#include <cstdio>

namespace {

void print_shape(const kvpage::PanelShape& shape) {
  std::printf("\"shape\": [%d, %d, %d, %d, %d, %d, %d", shape.code_bits, shape.offset, shape.block, shape.group,
              static_cast<int>(shape.scale), shape.has_minimum ? 1 : 0, shape.has_levels ? 1 : 0);
  for (const std::uint8_t level : shape.levels) std::printf(", %d", level);
  std::printf("]");
}

}  // namespace

int main() {
  kvpage::for_each_type(kvpage::WeightFormats{}, []<class W>() {
    const std::string_view name = W::kName;
    if constexpr (kvpage::PanelWeight<W> || kvpage::PlainWeight<W>) {
      std::printf("{\"format\": \"%.*s\", ", static_cast<int>(name.size()), name.data());
      if constexpr (kvpage::PanelWeight<W>) print_shape(W::kPanel);
      if constexpr (kvpage::PlainWeight<W>) std::printf("\"element\": [%d]", static_cast<int>(W::kPlainElement));
      std::printf("}\n");
    }
  });
  return 0;
}
