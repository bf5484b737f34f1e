/// \file The real models open with the tensors they are known to have, and the second reader agrees.
#include "engine/loader/gguf.hpp"
#include "support/allocation_count.hpp"
#include "loader/streaming_gguf_reader.hpp"
#include "support/catch.hpp"
#include "support/environment.hpp"

#include <fstream>
#include <map>

namespace kvpage_test {
namespace {

using namespace kvpage::engine;
using Counts = std::map<std::string, int>;

void check_model(const char* model_name, const char* architecture, const Counts& expected) {
  const auto path = model_path(model_name);
  const std::size_t before = allocated_bytes();
  const auto opened = Gguf::open(path);
  if (!opened) FAIL(opened.error().to_string());
  CHECK(allocated_bytes() - before < (4u << 20));
  CHECK(*opened->get<std::string_view>("general.architecture") == architecture);

  Counts counts;
  std::int64_t tensor_bytes = 0;
  for (const GgufTensor& tensor : opened->tensors()) {
    ++counts[std::string{tensor.format->name}];
    tensor_bytes += static_cast<std::int64_t>(tensor.data.size());
    CHECK(opened->find_tensor(tensor.name) == &tensor);
  }
  CHECK(counts == expected);
  CHECK(tensor_bytes > opened->file_bytes() * 9 / 10);

  const auto tokens = opened->get<GgufStrings>("tokenizer.ggml.tokens");
  REQUIRE(tokens);
  std::size_t num_tokens = 0;
  for (const std::string_view token : *tokens) num_tokens += token.data() != nullptr;
  CHECK(num_tokens == tokens->size());
  CHECK(opened->get<GgufNumbers<std::int32_t>>("tokenizer.ggml.token_type")->size() == num_tokens);

  for (const GgufTensor& tensor : opened->tensors()) {
    if (const auto finite = check_scales(tensor, path); !finite) FAIL(finite.error().to_string());
  }
  std::ifstream stream{path, std::ios::binary};
  CHECK(StreamingGgufReader::verdict(stream) == "");
}

}  // namespace

TEST_CASE("loader.real.smollm2", "[loader]") { check_model("smollm2", "llama", {{"Q4_1", 210}, {"Q8_0", 1}, {"F32", 61}}); }

TEST_CASE("loader.real.gemma3", "[loader]") {
  check_model("gemma3", "gemma3", {{"Q5_0", 81}, {"Q4_K", 27}, {"Q8_0", 10}, {"Q6_K", 9}, {"F32", 109}});
}

TEST_CASE("loader.real.qwen2_small", "[loader]") {
  check_model("qwen0.5b", "qwen2", {{"Q5_0", 133}, {"Q8_0", 13}, {"Q6_K", 12}, {"Q4_K", 12}, {"F32", 121}});
}

TEST_CASE("loader.real.qwen2_large", "[loader][qwen1.5b]") {
  if (!std::filesystem::exists(model_path("qwen1.5b"))) skip("Qwen2.5-Coder-1.5B is not here: tools/fetch_model.sh qwen1.5b");
  check_model("qwen1.5b", "qwen2", {{"Q4_K", 169}, {"Q6_K", 29}, {"F32", 141}});
}

}  // namespace kvpage_test
