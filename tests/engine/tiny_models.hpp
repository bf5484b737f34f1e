/// \file Generated models of three shapes, written to a folder of their own and loaded.
#pragma once

#include "engine/loader/gguf.hpp"
#include "engine/model/language_model.hpp"
#include "engine/sequence_runner.hpp"
#include "loader/temp_dir.hpp"
#include "support/catch.hpp"
#include "support/tiny_gguf.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace kvpage_test {

using kvpage::TokenId;

/// Every switch of the forward pass at once.
inline TinyModel every_switch() {
  TinyModel model;
  model.architecture = "gemma3";
  model.hidden = 24, model.ffn = 40, model.num_layers = 5;
  model.num_q_heads = 6, model.num_kv_heads = 2, model.head_dim = 8;
  model.window = 11, model.window_pattern = 3;
  model.attention_soft_cap = 2, model.final_soft_cap = 3;
  model.rope_base = 1'000'000;
  model.qkv_bias = model.qk_norm = model.post_norms = true;
  model.tied = false;
  return model;
}

/// Grouped queries, tied output, adjacent rotary pairs.
inline TinyModel plain_model() {
  TinyModel model;
  model.hidden = 32, model.ffn = 48, model.num_layers = 3;
  model.num_q_heads = 4, model.num_kv_heads = 2;
  model.seed = 2;
  return model;
}

/// Biases, one head per key, an output matrix of its own.
inline TinyModel biased_model() {
  TinyModel model;
  model.architecture = "qwen2";
  model.num_q_heads = model.num_kv_heads = 3;
  model.head_dim = 16, model.hidden = 48;
  model.qkv_bias = true;
  model.tied = false;
  model.seed = 3;
  return model;
}

/// A bias behind every matrix.
inline TinyModel with_every_bias(TinyModel model) {
  model.qkv_bias = model.attn_output_bias = model.ffn_bias = model.output_bias = true;
  return model;
}

/// Weights that CPUs multiply as codes, on every path with whole and broken tiles of rows.
inline TinyModel quantised_model() {
  TinyModel model = biased_model();
  model.hidden = 96, model.ffn = 160, model.head_dim = 32;
  model.format = &kvpage::kWeightFormatInfo<kvpage::Q5_0>;
  return model;
}

/// How tests load models unless they say otherwise: pages smaller than the texts, one thread.
inline kvpage::engine::ModelConfig tiny_config(std::string kernels, std::string kv_type = "f32", int num_threads = 1) {
  kvpage::engine::ModelConfig config;
  config.kernels = std::move(kernels), config.kv_type = std::move(kv_type);
  config.block_size = 16;
  config.num_threads = num_threads;
  return config;
}

/// A model file that lives as long as this.
class TinyFile {
 public:
  using Loaded = kvpage::Expected<std::unique_ptr<kvpage::engine::LanguageModel>, kvpage::engine::LoadError>;

  explicit TinyFile(const GgufWriter& writer) {
    writer.write(path());
    auto opened = kvpage::engine::Gguf::open(path());
    if (!opened) FAIL(opened.error().to_string());
    gguf_.emplace(std::move(*opened));
  }
  explicit TinyFile(const TinyModel& model) : TinyFile(tiny_gguf(model)) {}

  std::filesystem::path path() const { return dir_ / "tiny.gguf"; }
  const kvpage::engine::Gguf& gguf() const { return *gguf_; }

  Loaded try_load(const kvpage::engine::ModelConfig& config) const {
    const auto spec = kvpage::engine::read_model_spec(*gguf_);
    if (!spec) return kvpage::Unexpected{spec.error()};
    return kvpage::engine::load_language_model(*gguf_, *spec, config);
  }

  std::unique_ptr<kvpage::engine::LanguageModel> load(const kvpage::engine::ModelConfig& config) const {
    auto model = try_load(config);
    if (!model) FAIL(model.error().to_string());
    return std::move(*model);
  }

 private:
  TempDir dir_;
  std::optional<kvpage::engine::Gguf> gguf_;
};

/// The tensor `name` of a file under construction.
inline GgufWriter::Tensor& tensor_of(GgufWriter& writer, std::string_view name) {
  for (GgufWriter::Tensor& tensor : writer.tensors) {
    if (tensor.name == name) return tensor;
  }
  throw std::invalid_argument{"no tensor " + std::string{name}};
}

inline void erase_tensor(GgufWriter& writer, std::string_view name) {
  std::erase_if(writer.tensors, [&](const GgufWriter::Tensor& tensor) { return tensor.name == name; });
}

/// Writes `value` over the 32-bit float number `index` of a tensor.
inline void set_float(GgufWriter::Tensor& tensor, std::size_t index, float value) {
  std::string bytes;
  put(bytes, value);
  tensor.data.replace(index * sizeof value, sizeof value, bytes);
}

/// Why a file cannot be loaded; fails the test if it can.
inline kvpage::engine::LoadError load_error(const GgufWriter& writer, const std::string& kernels = "reference") {
  const TinyFile file(writer);
  auto model = file.try_load(tiny_config(kernels));
  if (model) FAIL("the file was loaded");
  return model.error();
}

/// `count` ids below 256, spread by a linear congruence.
inline std::vector<TokenId> some_ids(std::size_t count, std::uint32_t seed = 1) {
  std::vector<TokenId> ids;
  for (std::uint32_t state = seed; ids.size() < count;) {
    state = state * 1'664'525u + 1'013'904'223u;
    ids.push_back(state >> 24);
  }
  return ids;
}

/// Appends `ids` and returns the logits after each. // [ids.size()][vocab_size]
inline std::vector<std::vector<float>> append_all(kvpage::engine::SequenceRunner& runner, std::span<const TokenId> ids) {
  std::vector<std::vector<float>> rows;
  const auto appended = runner.append(ids, kvpage::engine::LogitRows::kAll, [&](std::int64_t, std::span<const float> logits) {
    rows.emplace_back(logits.begin(), logits.end());
    return true;
  });
  if (!appended) FAIL(appended.error().message);
  return rows;
}

/// Starts a sequence with `ids`, from whatever the cache has of it, and returns the logits after the last one. // [vocab_size]
inline std::vector<float> start_last(kvpage::engine::SequenceRunner& runner, std::span<const TokenId> ids) {
  std::vector<float> last;
  const auto started = runner.start(ids, kvpage::engine::LogitRows::kLast, [&](std::int64_t, std::span<const float> logits) {
    last.assign(logits.begin(), logits.end());
    return true;
  });
  if (!started) FAIL(started.error().message);
  return last;
}

}  // namespace kvpage_test
