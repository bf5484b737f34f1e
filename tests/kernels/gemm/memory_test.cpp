/// \file The packed kernels touch no byte outside of their buffers: every buffer has exactly its size, in a program under the sanitizers.
/// Two formats stand for all: one of codes, with every piece that a panel may have but bit planes, and one of floats.
#include "kernels/gemm/packed_fixture.hpp"
#include "support/catch.hpp"

#include <kvpage/quant/f16.hpp>
#include <kvpage/quant/q4_1.hpp>

namespace kvpage_test {

using namespace kvpage;

const PanelKernels& panel_kernels(const WeightFormatInfo& format) {
  return format.name == Q4_1::kName ? kPanelKernels<Q4_1> : kPanelKernels<F16Weight>;
}

namespace {

struct Shape {
  std::int64_t num_rows, outputs, cols;
};

/// Every broken tile of rows, half and whole panels, one and several passes.
const std::vector<Shape> kShapes{{1, 1, 32}, {2, 31, 32}, {3, 32, 64}, {4, 33, 96}, {5, 96, 32}, {6, 17, 576}, {7, 64, 64}, {25, 40, 96}};

/// [num_rows, outputs] of gate and of activation(gate) * up, by one instruction set.
struct Products {
  std::vector<float> plain, gated;
  std::vector<std::int8_t> codes;
  bool operator==(const Products&) const = default;
};

Products products(const WeightFormatInfo& format, const Shape& shape, Isa isa) {
  const auto [num_rows, outputs, cols] = shape;
  const RandomWeights gate_view(format, outputs, cols, 1), up_view(format, outputs, cols, 2);
  const Packed gate(gate_view.view()), up(up_view.view());
  const Activations activations(num_rows, cols, 3u);
  Cpu cpu({.num_threads = 2, .isa = isa});
  Products result;
  result.plain = random_floats(num_rows * outputs, 4);
  result.gated.resize(result.plain.size());
  const auto bias = random_floats(outputs, 5);
  REQUIRE(gemm(cpu, PackedGemmArgs{gate.weight, activations.input(0, num_rows), bias.data(), result.plain.data(), outputs, true}).ok());
  std::vector<QuantizedGroup> groups(static_cast<std::size_t>(num_rows * QuantizedRows::groups_for(outputs)));
  PackedGluArgs args{.gate = gate.weight, .up = up.weight, .input = activations.input(0, num_rows)};
  args.out = result.gated.data(), args.out_stride = outputs;
  args.quantized_out = {groups.data(), num_rows, outputs, QuantizedRows::groups_for(outputs)};
  REQUIRE(gemm_glu(cpu, args).ok());
  for (std::int64_t r = 0; r < num_rows; ++r) {
    for (std::int64_t g = 0; g < ceil_div(outputs, 32); ++g) {
      const auto& q = args.quantized_out.row(r)[g].q;
      result.codes.insert(result.codes.end(), std::begin(q), std::end(q));
    }
  }
  return result;
}

}  // namespace

TEST_CASE("gemm_memory.every_shape_stays_inside_its_buffers_on_every_instruction_set", "[gemm]") {
  for (const WeightFormatInfo* format : {&kWeightFormatInfo<Q4_1>, &kWeightFormatInfo<F16Weight>}) {
    for (const Shape& shape : kShapes) {
      const Products want = products(*format, shape, Isa::kGeneric);
      for (const Isa isa : runnable_isas()) {
        CAPTURE(format->name, shape.num_rows, shape.outputs, shape.cols, isa_name(isa));
        CHECK(products(*format, shape, isa) == want);
      }
    }
  }
}

}  // namespace kvpage_test
