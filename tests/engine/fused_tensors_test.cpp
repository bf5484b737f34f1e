/// \file One tensor for queries, keys and values, or for gate and up: the bits of separate ones; biases on the paths of codes.
#include "engine/memory_plan.hpp"
#include "engine/tiny_models.hpp"
#include "engine/tokenizer_from_gguf.hpp"

#include <cmath>

namespace kvpage_test {
namespace {

/// Appends tensor `name` to tensor `first`, which gets the name `fused`.
void join(GgufWriter& writer, const std::string& first, const std::string& name) {
  const GgufWriter::Tensor behind = tensor_of(writer, name);
  GgufWriter::Tensor& front = tensor_of(writer, first);
  front.data += behind.data;
  front.dims.back() += behind.dims.back();
  erase_tensor(writer, name);
}

/// The same model with fused tensors and, where it has any, fused biases.
GgufWriter fused(const TinyModel& model) {
  GgufWriter writer = tiny_gguf(model);
  for (std::uint32_t layer = 0; layer < model.num_layers; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    for (const std::string ending : {".weight", ".bias"}) {
      const bool is_bias = ending == ".bias";
      if (!is_bias || model.qkv_bias) {
        join(writer, prefix + "attn_q" + ending, prefix + "attn_k" + ending);
        join(writer, prefix + "attn_q" + ending, prefix + "attn_v" + ending);
        tensor_of(writer, prefix + "attn_q" + ending).name = prefix + "attn_qkv" + ending;
      }
      if (!is_bias || model.ffn_bias) {
        join(writer, prefix + "ffn_gate" + ending, prefix + "ffn_up" + ending);
        tensor_of(writer, prefix + "ffn_gate" + ending).name = prefix + "ffn_up" + ending;
      }
    }
  }
  return writer;
}

std::vector<std::vector<float>> logits_of(const GgufWriter& writer, const std::string& kernels) {
  const TinyFile file(writer);
  const auto model = file.load(tiny_config(kernels, "f16", 2));
  kvpage::engine::SequenceRunner runner(*model);
  return append_all(runner, some_ids(40));
}

TinyModel quantised_with_biases() { return with_every_bias(quantised_model()); }

}  // namespace

TEST_CASE("engine.fused.one_tensor_gives_the_bits_of_separate_ones", "[engine]") {
  TinyModel narrow = plain_model();
  narrow.num_kv_heads = 1;  // keys and values of less than a panel, behind queries of a whole one
  for (const TinyModel& model : {narrow, quantised_model(), quantised_with_biases(), with_every_bias(every_switch())}) {
    for (const std::string& kernels : kvpage::engine::backend_names()) {
      INFO(model.architecture << ' ' << model.format->name << ' ' << kernels);
      CHECK(logits_of(fused(model), kernels) == logits_of(tiny_gguf(model), kernels));
    }
  }
}

TEST_CASE("engine.fused.the_plan_counts_the_parts", "[engine]") {
  const TinyModel model = quantised_with_biases();
  const TinyFile apart(tiny_gguf(model)), together(fused(model));
  for (const std::string& kernels : kvpage::engine::backend_names()) {
    const auto plan = [&](const TinyFile& file) {
      const auto spec = kvpage::engine::read_model_spec(file.gguf());
      const auto tokenizer = kvpage::engine::read_tokenizer(file.gguf());
      REQUIRE(spec);
      REQUIRE(tokenizer);
      return kvpage::engine::plan_memory({file.gguf(), *spec, *tokenizer}, tiny_config(kernels));
    };
    CHECK(plan(together).weight_bytes == plan(apart).weight_bytes);
    CHECK(plan(together).workspace_bytes == plan(apart).workspace_bytes);
  }
}

TEST_CASE("engine.fused.a_bad_scale_in_any_part_names_the_tensor", "[engine]") {
  const TinyModel model = quantised_model();
  for (const std::string& kernels : kvpage::engine::backend_names()) {
    GgufWriter writer = fused(model);
    auto& tensor = tensor_of(writer, "blk.1.attn_qkv.weight");
    tensor.data[tensor.data.size() - 22] = '\xff', tensor.data[tensor.data.size() - 21] = '\x7f';  // the 16-bit scale of the last block
    CHECK(load_error(writer, kernels).item.find("blk.1.attn_qkv.weight") != std::string::npos);
  }
}

// Codes of activations cost some digits; a bias that is left out costs far more.
TEST_CASE("engine.biases.codes_come_as_close_with_biases_as_without", "[engine]") {
  const auto error = [](const TinyModel& model) {
    const auto got = logits_of(tiny_gguf(model), "cpu"), want = logits_of(tiny_gguf(model), "reference");
    double difference = 0, size = 0;
    for (std::size_t t = 0; t < want.size(); ++t) {
      for (std::size_t i = 0; i < want[t].size(); ++i) {
        difference += std::pow(static_cast<double>(got[t][i] - want[t][i]), 2);
        size += std::pow(static_cast<double>(want[t][i]), 2);
      }
    }
    return std::sqrt(difference / size);
  };
  const double without = error(quantised_model()), with = error(quantised_with_biases());
  INFO("relative error without biases " << without << ", with " << with);
  CHECK(without < 0.02);
  CHECK(with < 1.5 * without);
}

TEST_CASE("engine.biases.the_greedy_token_counts_the_output_bias", "[engine]") {
  TinyModel tiny = quantised_model();
  tiny.output_bias = true;
  GgufWriter writer = tiny_gguf(tiny);
  constexpr std::size_t kFavoured = 201;
  set_float(tensor_of(writer, "output.bias"), kFavoured, 100.0f);
  const TinyFile file(writer);
  const auto model = file.load(tiny_config("cpu"));
  kvpage::engine::SequenceRunner runner(*model);
  CHECK(start_last(runner, some_ids(5))[kFavoured] > 50.0f);
  const auto best = model->argmax(0, 1);
  REQUIRE(best);
  CHECK((*best)[0].col() == std::int64_t{kFavoured});
}

}  // namespace kvpage_test
