/// \file Generated models are right files with the tensors and keys that their switches ask for.
#include "engine/loader/gguf.hpp"
#include "loader/streaming_gguf_reader.hpp"
#include "loader/temp_dir.hpp"
#include "support/catch.hpp"
#include "support/tiny_gguf.hpp"

#include <set>
#include <sstream>

namespace kvpage_test {
namespace {

using namespace kvpage::engine;

std::set<std::string> tensor_names(const TinyModel& model) {
  const std::string bytes = tiny_gguf(model).bytes();
  std::istringstream stream{bytes};
  CHECK(StreamingGgufReader::verdict(stream) == "");
  const TempDir dir;
  write_tiny_gguf(model, dir / "tiny.gguf");
  const auto opened = Gguf::open(dir / "tiny.gguf");
  if (!opened) FAIL(opened.error().to_string());
  CHECK(opened->get<GgufStrings>("tokenizer.ggml.tokens")->size() == model.vocab_size);
  std::set<std::string> names;
  for (const GgufTensor& tensor : opened->tensors()) {
    CHECK(check_scales(tensor, "tiny.gguf"));
    names.emplace(tensor.name);
  }
  return names;
}

}  // namespace

TEST_CASE("loader.tiny.default_is_small_plain_and_tied", "[loader]") {
  CHECK(tiny_gguf({}).bytes().size() <= 65'536);
  const auto names = tensor_names({});
  CHECK(names.size() == 2 + 2 * 9);
  CHECK(names.count("token_embd.weight") == 1);
  CHECK(names.count("output.weight") == 0);
  CHECK(names.count("blk.1.ffn_down.weight") == 1);
}

TEST_CASE("loader.tiny.all_switches_together", "[loader]") {
  TinyModel model;
  model.architecture = "gemma3";
  model.window = 16;
  model.window_pattern = 2;
  model.attention_soft_cap = 50;
  model.final_soft_cap = 30;
  model.qkv_bias = model.qk_norm = model.post_norms = true;
  model.tied = false;
  CHECK(tiny_gguf(model).bytes().size() <= 65'536);
  const auto names = tensor_names(model);
  CHECK(names.size() == 3 + 2 * 16);
  for (const char* name : {"output.weight", "blk.0.attn_q.bias", "blk.1.attn_k_norm.weight", "blk.0.post_ffw_norm.weight"}) {
    CHECK(names.count(name) == 1);
  }
}

TEST_CASE("loader.tiny.every_weight_format_can_be_generated", "[loader]") {
  kvpage::for_each_type(kvpage::WeightFormats{}, []<class Format>() {
    TinyModel model;
    model.hidden = model.ffn = Format::kBlockElements == 256 ? 256 : 32;
    model.num_layers = 1;
    model.head_dim = model.hidden / model.num_q_heads;
    model.format = &kvpage::kWeightFormatInfo<Format>;
    INFO(Format::kName);
    CHECK(tensor_names(model).size() == 2 + 9);
  });
}

TEST_CASE("loader.tiny.the_seed_decides_the_bytes", "[loader]") {
  TinyModel model;
  const std::string bytes = tiny_gguf(model).bytes();
  CHECK(tiny_gguf(model).bytes() == bytes);
  model.seed = 2;
  CHECK(tiny_gguf(model).bytes() != bytes);
}

}  // namespace kvpage_test
