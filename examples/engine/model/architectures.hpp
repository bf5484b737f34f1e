/// \file The table of architectures: the only place in the code where model families have names.
#pragma once

#include "engine/model/model_spec.hpp"
#include "engine/tokenizer/tokenizer_data.hpp"

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace kvpage::engine {

/// Architectures by the `general.architecture` of the file. docs/model_files.md has them with their sources.
inline constexpr std::array kArchitectures{
    ArchitectureTraits{.name = "llama",
                       .rope_pairing = RopePairing::kAdjacent,
                       .activation = GateActivation::kSilu,
                       .qkv_bias = Presence::kOptional,
                       .attn_output_bias = Presence::kOptional,
                       .ffn_bias = Presence::kOptional,
                       .output_bias = Presence::kOptional,
                       .fused_qkv = Presence::kOptional,
                       .fused_gate_up = Presence::kOptional,
                       .qk_norm = Presence::kAbsent,
                       .post_norms = false,
                       .scale_embedding = false,
                       .width_scaled_layers = 0,
                       .rope_theta = 10000.0,
                       .has_windows = false,
                       .full_attention_period = 0,
                       .window_rope_theta = 0},
    ArchitectureTraits{.name = "qwen2",
                       .rope_pairing = RopePairing::kHalf,
                       .activation = GateActivation::kSilu,
                       .qkv_bias = Presence::kOptional,
                       .attn_output_bias = Presence::kOptional,
                       .ffn_bias = Presence::kOptional,
                       .output_bias = Presence::kOptional,
                       .fused_qkv = Presence::kOptional,
                       .fused_gate_up = Presence::kOptional,
                       .qk_norm = Presence::kAbsent,
                       .post_norms = false,
                       .scale_embedding = false,
                       .width_scaled_layers = 0,
                       .rope_theta = 10000.0,
                       .has_windows = false,
                       .full_attention_period = 0,
                       .window_rope_theta = 0},
    ArchitectureTraits{.name = "gemma3",
                       .rope_pairing = RopePairing::kHalf,
                       .activation = GateActivation::kGeluTanh,
                       .qkv_bias = Presence::kOptional,
                       .attn_output_bias = Presence::kOptional,
                       .ffn_bias = Presence::kOptional,
                       .output_bias = Presence::kOptional,
                       .fused_qkv = Presence::kOptional,
                       .fused_gate_up = Presence::kOptional,
                       .qk_norm = Presence::kRequired,
                       .post_norms = true,
                       .scale_embedding = true,
                       .width_scaled_layers = 62,
                       .rope_theta = 0,
                       .has_windows = true,
                       .full_attention_period = 6,
                       .window_rope_theta = 10000.0},
};

/// The row of `name`, or nothing.
constexpr std::optional<ArchitectureTraits> find_architecture(std::string_view name) {
  for (const auto& row : kArchitectures) {
    if (row.name == name) return row;
  }
  return std::nullopt;
}

/// "a, b, c", for error texts.
inline std::string architecture_names() {
  std::string text;
  for (const auto& row : kArchitectures) text += (text.empty() ? "" : ", ") + std::string(row.name);
  return text;
}

/// How texts are merged, by the `tokenizer.ggml.model` of the file.
struct TokenizerModelName {
  std::string_view name;
  TokenizerKind kind;
};
inline constexpr std::array kTokenizerModels{
    TokenizerModelName{"gpt2", TokenizerKind::kBpe},
    TokenizerModelName{"llama", TokenizerKind::kSpm},
};

/// How texts are cut into words, by the `tokenizer.ggml.pre` of the file.
struct PreTokenizerName {
  std::string_view name;
  PreTokenizer kind;
  bool ignore_merges;
  bool add_bos;   ///< what a file means that does not say it
  bool composes;  ///< the publisher's tokenizer brings texts into NFC first, which no key of the file says
};
/// `composes` is the "normalizer" of the tokenizer.json that the publisher ships: NFC in those of Qwen 1.5, 2, 2.5 and 3
/// (`qwen2`), null in those of GPT-2, of SmolLM 1 and 2, and of Llama 3. SPM: the normalizer of Gemma and Llama 1 and 2 only
/// writes spaces as U+2581 and puts one in front.
inline constexpr std::array kPreTokenizers{
    PreTokenizerName{.name = "gpt-2", .kind = PreTokenizer::kGpt2, .ignore_merges = false, .add_bos = false, .composes = false},
    PreTokenizerName{.name = "smollm", .kind = PreTokenizer::kSmol, .ignore_merges = false, .add_bos = false, .composes = false},
    PreTokenizerName{.name = "qwen2", .kind = PreTokenizer::kSingleDigits, .ignore_merges = false, .add_bos = false, .composes = true},
    PreTokenizerName{.name = "llama-bpe", .kind = PreTokenizer::kDigitTriples, .ignore_merges = true, .add_bos = true, .composes = false},
};

}  // namespace kvpage::engine
