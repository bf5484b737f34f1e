/// \file TinyModel: a generated model with random weights, small enough to be checked against obvious loops.
#pragma once

#include "support/gguf_writer.hpp"
#include "support/tiny_gguf_tokenizer.hpp"

#include <kvpage/quant/weight_formats.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace kvpage_test {

/// Shape and switches of a generated model. The default file takes less than 64 KiB; 0 switches a number off.
struct TinyModel {
  std::string architecture = "llama";
  std::uint32_t vocab_size = 272;
  std::uint32_t hidden = 16;
  std::uint32_t num_layers = 2;
  std::uint32_t num_q_heads = 2;
  std::uint32_t num_kv_heads = 1;
  std::uint32_t head_dim = 8;
  std::uint32_t ffn = 32;
  std::uint32_t context = 128;
  std::uint32_t window = 0;
  std::uint32_t window_pattern = 0;  ///< every n-th layer attends to everything
  float attention_soft_cap = 0;
  float final_soft_cap = 0;
  float rope_base = 10'000;
  float norm_epsilon = 1e-5f;
  bool qkv_bias = false;
  bool attn_output_bias = false;
  bool ffn_bias = false;
  bool output_bias = false;
  bool qk_norm = false;
  bool post_norms = false;
  bool tied = true;
  const kvpage::WeightFormatInfo* format = &kvpage::kWeightFormatInfo<kvpage::F32Weight>;  ///< of matrices; vectors stay single
  std::uint64_t seed = 1;
};

/// Random tensors; the same seed gives the same bytes everywhere.
class TinyTensors {
 public:
  TinyTensors(GgufWriter& writer, std::uint64_t seed) : writer_(writer), state_(seed) {}

  /// A matrix [rows, cols] of values of about 1 / sqrt(cols).
  void matrix(const std::string& name, std::uint64_t rows, std::uint64_t cols, const kvpage::WeightFormatInfo& format) {
    const float limit = 1.5f / std::sqrt(static_cast<float>(cols));
    const std::uint64_t num_blocks = rows * cols / static_cast<std::uint64_t>(format.block_elements);
    std::string data;
    for (std::uint64_t i = 0; i < num_blocks; ++i) data += format.gguf_type == 0 ? single(0, limit) : random_block(format, limit);
    writer_.tensor(name, {cols, rows}, format.gguf_type, data);
  }

  /// A vector [size] of values in centre +- spread.
  void vector(const std::string& name, std::uint64_t size, float centre, float spread) {
    std::string data;
    for (std::uint64_t i = 0; i < size; ++i) data += single(centre, spread);
    writer_.tensor(name, {size}, 0, data);
  }

 private:
  // splitmix64. Source: https://prng.di.unimi.it/splitmix64.c
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }

  std::string single(float centre, float spread) {
    const float unit = static_cast<float>(next() >> 40) * 0x1p-23f - 1.0f;  // [-1, 1), exact
    std::string bytes;
    put(bytes, std::fma(unit, spread, centre));
    return bytes;
  }

  // Draws random blocks until one decodes to sane values; works for every format without knowing its fields.
  std::string random_block(const kvpage::WeightFormatInfo& format, float limit) {
    std::string block(static_cast<std::size_t>(format.block_bytes), '\0');
    std::vector<float> values(static_cast<std::size_t>(format.block_elements));
    for (;;) {
      for (char& byte : block) byte = static_cast<char>(next() >> 56);
      const auto* bytes = reinterpret_cast<const std::byte*>(block.data());
      if (format.find_nonfinite(bytes, 1) != 1) continue;
      format.decode_blocks(bytes, 1, values.data());
      float largest = 0;
      for (const float value : values) largest = std::fmax(largest, std::fabs(value));
      if (largest <= limit && largest >= limit / 16) return block;
    }
  }

  GgufWriter& writer_;
  std::uint64_t state_;
};

inline void add_tiny_metadata(GgufWriter& writer, const TinyModel& model) {
  const auto key = [&](const char* name) { return model.architecture + "." + name; };
  writer.text("general.architecture", model.architecture).text("general.name", "tiny");
  writer.number(key("context_length"), model.context).number(key("embedding_length"), model.hidden);
  writer.number(key("block_count"), model.num_layers).number(key("feed_forward_length"), model.ffn);
  writer.number(key("attention.head_count"), model.num_q_heads).number(key("attention.head_count_kv"), model.num_kv_heads);
  writer.number(key("attention.key_length"), model.head_dim).number(key("attention.value_length"), model.head_dim);
  writer.number(key("rope.dimension_count"), model.head_dim).number(key("rope.freq_base"), model.rope_base);
  writer.number(key("attention.layer_norm_rms_epsilon"), model.norm_epsilon).number(key("vocab_size"), model.vocab_size);
  if (model.window != 0) writer.number(key("attention.sliding_window"), model.window);
  if (model.window_pattern != 0) writer.number(key("attention.sliding_window_pattern"), model.window_pattern);
  if (model.attention_soft_cap != 0) writer.number(key("attn_logit_softcapping"), model.attention_soft_cap);
  if (model.final_soft_cap != 0) writer.number(key("final_logit_softcapping"), model.final_soft_cap);
}

inline void add_tiny_layer(TinyTensors& tensors, const TinyModel& model, std::uint32_t layer) {
  const auto name = [&](const char* part) { return "blk." + std::to_string(layer) + "." + part; };
  const std::uint32_t q = model.num_q_heads * model.head_dim;
  const std::uint32_t kv = model.num_kv_heads * model.head_dim;
  tensors.vector(name("attn_norm.weight"), model.hidden, 1, 0.25f);
  tensors.matrix(name("attn_q.weight"), q, model.hidden, *model.format);
  tensors.matrix(name("attn_k.weight"), kv, model.hidden, *model.format);
  tensors.matrix(name("attn_v.weight"), kv, model.hidden, *model.format);
  tensors.matrix(name("attn_output.weight"), model.hidden, q, *model.format);
  if (model.qkv_bias) {
    tensors.vector(name("attn_q.bias"), q, 0, 0.5f);
    tensors.vector(name("attn_k.bias"), kv, 0, 0.5f);
    tensors.vector(name("attn_v.bias"), kv, 0, 0.5f);
  }
  if (model.attn_output_bias) tensors.vector(name("attn_output.bias"), model.hidden, 0, 0.5f);
  if (model.qk_norm) {
    tensors.vector(name("attn_q_norm.weight"), model.head_dim, 1, 0.25f);
    tensors.vector(name("attn_k_norm.weight"), model.head_dim, 1, 0.25f);
  }
  if (model.post_norms) tensors.vector(name("post_attention_norm.weight"), model.hidden, 1, 0.25f);
  tensors.vector(name("ffn_norm.weight"), model.hidden, 1, 0.25f);
  tensors.matrix(name("ffn_gate.weight"), model.ffn, model.hidden, *model.format);
  tensors.matrix(name("ffn_up.weight"), model.ffn, model.hidden, *model.format);
  tensors.matrix(name("ffn_down.weight"), model.hidden, model.ffn, *model.format);
  if (model.ffn_bias) {
    tensors.vector(name("ffn_gate.bias"), model.ffn, 0, 0.5f);
    tensors.vector(name("ffn_up.bias"), model.ffn, 0, 0.5f);
    tensors.vector(name("ffn_down.bias"), model.hidden, 0, 0.5f);
  }
  if (model.post_norms) tensors.vector(name("post_ffw_norm.weight"), model.hidden, 1, 0.25f);
}

/// The whole model; add what else you need before writing it.
inline GgufWriter tiny_gguf(const TinyModel& model) {
  GgufWriter writer;
  add_tiny_metadata(writer, model);
  add_tiny_tokenizer(writer, model.vocab_size);
  TinyTensors tensors{writer, model.seed};
  tensors.matrix("token_embd.weight", model.vocab_size, model.hidden, *model.format);
  for (std::uint32_t layer = 0; layer < model.num_layers; ++layer) add_tiny_layer(tensors, model, layer);
  tensors.vector("output_norm.weight", model.hidden, 1, 0.25f);
  if (!model.tied) tensors.matrix("output.weight", model.vocab_size, model.hidden, *model.format);
  if (model.output_bias) tensors.vector("output.bias", model.vocab_size, 0, 0.5f);
  return writer;
}

/// Writes the model to a file.
inline void write_tiny_gguf(const TinyModel& model, const std::filesystem::path& path) { tiny_gguf(model).write(path); }

}  // namespace kvpage_test
