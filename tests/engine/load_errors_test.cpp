/// \file Files that are right as files but wrong as models: each error names what is wrong.
#include "engine/tiny_models.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <tuple>

namespace kvpage_test {
namespace {

using kvpage::engine::LoadError;

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

/// Every error has a file, something wanted, something found, a hint, and takes three lines.
void check_complete(const LoadError& error) {
  INFO(error.to_string());
  CHECK(contains(error.file, "tiny.gguf"));
  CHECK(!error.item.empty());
  CHECK(!error.wanted.empty());
  CHECK(!error.found.empty());
  CHECK(!error.hint.empty());
  const std::string text = error.to_string();
  CHECK(std::count(text.begin(), text.end(), '\n') == 2);
}

void check_error(const GgufWriter& writer, std::string_view item, std::string_view wanted, std::string_view found,
                 const std::string& kernels = "reference") {
  const LoadError error = load_error(writer, kernels);
  check_complete(error);
  INFO(error.to_string());
  CHECK(contains(error.item, item));
  CHECK(contains(error.wanted, wanted));
  CHECK(contains(error.found, found));
}

/// The default model's tensors under the metadata of another one.
GgufWriter with_metadata_of(const TinyModel& model) {
  GgufWriter writer;
  add_tiny_metadata(writer, model);
  add_tiny_tokenizer(writer, model.vocab_size);
  writer.tensors = tiny_gguf({}).tensors;
  return writer;
}

void check_error(const TinyModel& model, std::string_view item, std::string_view wanted, std::string_view found) {
  check_error(tiny_gguf(model), item, wanted, found);
}

}  // namespace

TEST_CASE("engine.load.missing_tensors_are_counted_and_the_first_five_named", "[engine]") {
  GgufWriter writer = tiny_gguf({});
  erase_tensor(writer, "blk.1.attn_k.weight");
  check_error(writer, "1 tensor", "in the file", "blk.1.attn_k.weight");
  CHECK_FALSE(contains(load_error(writer).found, "more"));
  std::erase_if(writer.tensors, [](const auto& tensor) { return tensor.name.starts_with("blk.1."); });
  check_error(writer, "9 tensors", "in the file",
              "blk.1.attn_norm.weight, blk.1.attn_q.weight, blk.1.attn_k.weight, blk.1.attn_v.weight, blk.1.attn_output.weight and 4 more");
}

TEST_CASE("engine.load.tensors_that_the_architecture_requires", "[engine]") {
  TinyModel model = every_switch();
  model.qk_norm = false;
  check_error(model, "10 tensors", "in the file", "blk.0.attn_q_norm.weight");
}

TEST_CASE("engine.load.a_tensor_that_nobody_uses_is_an_error", "[engine]") {
  GgufWriter writer = tiny_gguf({});
  writer.tensor("blk.0.attn_q.scale", {1}, 0, std::string(4, '\0'));
  check_error(writer, "1 tensor", "used", "blk.0.attn_q.scale");
  TinyModel with_norms = plain_model();
  with_norms.qk_norm = true;  // this architecture has none: without them the text would be wrong
  check_error(with_norms, "6 tensors", "used", "attn_q_norm.weight");
}

TEST_CASE("engine.load.a_wrong_shape_names_both", "[engine]") {
  GgufWriter writer = tiny_gguf({});
  std::swap(tensor_of(writer, "blk.1.ffn_up.weight").dims[0], tensor_of(writer, "blk.1.ffn_up.weight").dims[1]);
  check_error(writer, "blk.1.ffn_up.weight", "[16, 32]", "[32, 16]");
  writer = tiny_gguf({});
  auto& norm = tensor_of(writer, "output_norm.weight");
  norm.dims[0] = 15, norm.data.resize(60);
  check_error(writer, "output_norm.weight", "16", "15");
  writer = tiny_gguf({});
  auto& embedding = tensor_of(writer, "token_embd.weight");
  embedding.dims[1] = 271, embedding.data.resize(271 * 64);
  check_error(writer, "token_embd.weight", "[16, 272]", "[16, 271]");
}

TEST_CASE("engine.load.an_unknown_architecture_lists_the_known_ones", "[engine]") {
  TinyModel model;
  model.architecture = "mamba\x1b[2J";
  check_error(model, "general.architecture", "llama, qwen2, gemma3", "mamba");
  CHECK_FALSE(contains(load_error(tiny_gguf(model)).to_string(), "\x1b"));
}

TEST_CASE("engine.load.sizes_must_be_possible", "[engine]") {
  const std::vector<std::tuple<const char*, const char*, std::function<void(TinyModel&)>>> faults{
      {"attention.head_count", "multiple", [](TinyModel& m) { m.num_q_heads = 3, m.num_kv_heads = 2; }},
      {"attention.head_count", "number in", [](TinyModel& m) { m.num_q_heads = 0; }},
      {"attention.head_count", "65536", [](TinyModel& m) { m.num_q_heads = m.num_kv_heads = 70'000; }},
      {"attention.head_count_kv", "number in", [](TinyModel& m) { m.num_kv_heads = 0; }},
      {"block_count", "number in", [](TinyModel& m) { m.num_layers = 0; }},
      {"attention.key_length", "multiple of 8", [](TinyModel& m) { m.head_dim = 7; }},
      {"attention.layer_norm_rms_epsilon", "finite", [](TinyModel& m) { m.norm_epsilon = std::numeric_limits<float>::infinity(); }},
      {"rope.freq_base", "finite", [](TinyModel& m) { m.rope_base = std::nanf(""); }},
      {"rope.freq_base", "above 1", [](TinyModel& m) { m.rope_base = 0; }},
      {"rope.freq_base", "above 1", [](TinyModel& m) { m.rope_base = 0.5f; }},
      {"attention.key_length", "multiple of 8", [](TinyModel& m) { m.head_dim = 20; }},
      {"attention.key_length", "up to 512", [](TinyModel& m) { m.head_dim = 520; }},
      {"context_length", "number in", [](TinyModel& m) { m.context = 0; }}};
  for (const auto& [item, wanted, change] : faults) {
    TinyModel model;
    change(model);
    INFO(item);
    check_error(with_metadata_of(model), item, wanted, "");
  }
}

TEST_CASE("engine.load.only_the_damaged_are_called_damaged", "[engine]") {
  GgufWriter experts = tiny_gguf({});
  experts.number("llama.expert_count", std::uint32_t{8});
  TinyModel wide;
  wide.head_dim = 520;
  GgufWriter shape = tiny_gguf({});
  auto& norm = tensor_of(shape, "output_norm.weight");
  norm.dims[0] = 15, norm.data.resize(60);
  for (const GgufWriter& writer : {experts, with_metadata_of(wide), shape}) {
    INFO(load_error(writer).to_string());
    CHECK_FALSE(contains(load_error(writer).hint, "damaged"));
  }
  CHECK(contains(load_error(experts).hint, "not supported"));
  CHECK(contains(load_error(with_metadata_of(wide)).hint, "not supported"));
}

TEST_CASE("engine.load.unknown_settings_are_named", "[engine]") {
  const TinyFile file{TinyModel{}};
  const auto no_kernels = file.try_load(tiny_config("gpu"));
  REQUIRE_FALSE(no_kernels);
  CHECK(contains(no_kernels.error().to_string(), "gpu"));
  const auto no_cache = file.try_load(tiny_config("cpu", "f17"));
  REQUIRE_FALSE(no_cache);
  CHECK(contains(no_cache.error().to_string(), "f17"));
  auto config = tiny_config("cpu");
  for (const std::int64_t step_tokens : {std::int64_t{0}, kvpage::engine::kMaxStepTokens + 1}) {
    config.step_tokens = step_tokens;
    CHECK_THROWS_AS(file.try_load(config), kvpage::ConfigError);
  }
}

TEST_CASE("bug.B47.a_weight_that_is_not_a_number_ends_the_load", "[engine]") {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    GgufWriter writer = tiny_gguf({});
    set_float(tensor_of(writer, "blk.1.ffn_norm.weight"), 5, bad);
    check_error(writer, "blk.1.ffn_norm.weight", "finite", "5");
  }
  GgufWriter writer = tiny_gguf(quantised_model());
  auto& tensor = tensor_of(writer, "blk.0.attn_v.weight");
  tensor.data[7 * 22] = '\xff', tensor.data[7 * 22 + 1] = '\x7f';  // the 16-bit scale of block 7
  for (const std::string& kernels : kvpage::engine::backend_names()) {  // found while packing, or by a search of its own
    INFO(kernels);
    check_error(writer, "blk.0.attn_v.weight", "finite", "block 7 of", kernels);
  }
}

}  // namespace kvpage_test
