#include "engine/loader/gguf.hpp"
#include "engine/model/architectures.hpp"
#include "engine/model/language_model.hpp"
#include "engine/model/spec_reader.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace kvpage::engine {
namespace {

/// The widest head that the attention kernels take.
constexpr std::int64_t kMaxHeadDim = 512;

/// What a YaRN file multiplies cosines and sines with, beside what its factor gives: `yarn_attn_factor` in place of that, or divided
/// by that of `yarn_log_multiplier`.
/// Source: attention_factor and mscale_all_dim of huggingface/transformers, modeling_rope_utils; llama.cpp, llama-context.cpp.
double read_yarn_magnitude(SpecReader& reader, double factor) {
  const double log_factor = factor > 1.0 ? 0.1 * std::log(factor) : 0.0;
  const float whole = reader.positive_unless_off("rope.scaling.yarn_attn_factor", 0.0f);
  const float log_multiplier = reader.positive_unless_off("rope.scaling.yarn_log_multiplier", 0.0f);
  if (whole > 0) return static_cast<double>(whole) / (log_factor + 1.0);
  return 1.0 / (log_factor * static_cast<double>(log_multiplier) + 1.0);
}

/// RoPE scaling of the layers that see everything. An unknown type is an error: ignoring it gives quietly wrong text.
/// No factor, or one of 0, means no scaling.
RopeScaling read_rope(SpecReader& reader, const ModelSpec& spec) {
  RopeScaling rope;
  reader.require_known("rope.scaling.", {"type", "rope_type", "factor", "original_context_length", "finetuned", "attn_factor", "alpha",
                                         "yarn_attn_factor", "yarn_beta_fast", "yarn_beta_slow", "yarn_log_multiplier",
                                         "yarn_ext_factor"});
  reader.require_neutral("rope.scaling.alpha", {0.0f});
  reader.require_neutral("rope.scaling.yarn_ext_factor", {1.0f, -1.0f});  // below 0: not set
  rope.theta = static_cast<double>(
      reader.positive("rope.freq_base", spec.traits.rope_theta > 0 ? static_cast<float>(spec.traits.rope_theta) : -1.0f, 1.0f));
  // A `type` may stand under either of two names. Without one a factor is linear, and older files call it scale_linear.
  const std::string type = reader.text("rope.scaling.type", reader.text("rope.scaling.rope_type", ""));
  const float old_factor = reader.has("rope.scaling.factor") ? 1.0f : reader.positive_unless_off("rope.scale_linear", 1.0f);
  rope.factor = static_cast<double>(reader.positive_unless_off("rope.scaling.factor", old_factor));
  rope.magnitude_scale = static_cast<double>(reader.positive("rope.scaling.attn_factor", 1.0f));
  if (type == "none") {
    rope.factor = 1.0;
  } else if (type == "linear" || type.empty()) {
    if (rope.factor != 1.0) rope.kind = RopeScalingKind::kLinear;
  } else if (type == "yarn") {
    rope.kind = RopeScalingKind::kYarn;
    const std::int64_t original = reader.count("rope.scaling.original_context_length", 0, std::int64_t{1} << 40, 0);
    rope.original_context = static_cast<double>(original > 0 ? original : spec.context_limit_tokens);
    rope.magnitude_scale *= read_yarn_magnitude(reader, rope.factor);
    rope.beta_fast = static_cast<double>(reader.positive_unless_off("rope.scaling.yarn_beta_fast", 32.0f));
    rope.beta_slow = static_cast<double>(reader.positive_unless_off("rope.scaling.yarn_beta_slow", 1.0f));
  } else {
    reader.unsupported("rope.scaling.type", "none, linear or yarn", '"' + printable(type) + '"');
  }
  return rope;
}

/// Settings of other models under this architecture's name: kernels here have none of them.
void refuse_other_models(SpecReader& reader, const ModelSpec& spec) {
  reader.require_neutral("expert_count", {0.0f});
  reader.require_neutral("nextn_predict_layers", {0.0f});
  reader.require_neutral("attention.causal", {1.0f});
  reader.require_neutral("use_parallel_residual", {0.0f});
  for (const char* key : {"logit_scale", "embedding_scale", "residual_scale"}) reader.require_neutral(key, {1.0f, 0.0f});
  for (const char* key : {"attention.clamp_kqv", "attention.max_alibi_bias", "attention.temperature_length",
                          "attention.temperature_scale", "attention.output_scale"}) {
    reader.require_neutral(key, {0.0f});
  }
  for (const char* key : {"attention.key_length_swa", "attention.value_length_swa"}) {
    reader.require_neutral(key, {static_cast<float>(spec.head_dim)});
  }
  reader.require_neutral("rope.dimension_count_swa", {static_cast<float>(spec.rotary_dim)});
}

void read_window(SpecReader& reader, ModelSpec& spec) {
  if (!spec.traits.has_windows) return;
  spec.window_tokens = reader.count("attention.sliding_window", 0, std::int64_t{1} << 40, 0);
  if (auto layers = reader.flags("attention.sliding_window_pattern")) {
    spec.window_layers = std::move(*layers);
    return;
  }
  spec.traits.full_attention_period =
      static_cast<int>(reader.count("attention.sliding_window_pattern", 0, 1 << 16, spec.traits.full_attention_period));
}

void read_sizes(SpecReader& reader, ModelSpec& spec) {
  constexpr std::int64_t kMaxSize = std::int64_t{1} << 24;
  spec.num_layers = reader.count("block_count", 1, 1 << 16);
  reader.set_num_layers(spec.num_layers);
  spec.hidden_size = reader.count("embedding_length", 1, kMaxSize);
  spec.ffn_size = reader.count("feed_forward_length", 1, kMaxSize);
  spec.num_q_heads = reader.count("attention.head_count", 1, 1 << 16);
  spec.num_kv_heads = reader.count("attention.head_count_kv", 1, 1 << 16, spec.num_q_heads);
  spec.head_dim = reader.count("attention.key_length", 1, 1 << 16, spec.hidden_size / spec.num_q_heads);
  spec.rotary_dim = reader.count("rope.dimension_count", 1, 1 << 16, spec.head_dim);
  spec.context_limit_tokens = reader.count("context_length", 1, std::int64_t{1} << 40);
  if (spec.num_q_heads % spec.num_kv_heads != 0) {
    reader.fail("attention.head_count", "a multiple of attention.head_count_kv = " + std::to_string(spec.num_kv_heads),
                std::to_string(spec.num_q_heads));
  }
  if (spec.head_dim % 8 != 0 || spec.head_dim > kMaxHeadDim) {
    reader.unsupported("attention.key_length",
                       "a multiple of 8 up to " + std::to_string(kMaxHeadDim) + " (by default embedding_length / head_count)",
                       std::to_string(spec.head_dim));
  }
  const std::int64_t value_dim = reader.count("attention.value_length", 1, 1 << 16, spec.head_dim);
  if (value_dim != spec.head_dim) {
    reader.unsupported("attention.value_length", "the key length " + std::to_string(spec.head_dim), std::to_string(value_dim));
  }
  if (spec.rotary_dim > spec.head_dim || spec.rotary_dim % 2 != 0) {
    reader.fail("rope.dimension_count", "an even number up to the head size " + std::to_string(spec.head_dim),
                std::to_string(spec.rotary_dim));
  }
}

}  // namespace

Expected<ModelSpec, LoadError> read_model_spec(const Gguf& file) {
  const auto architecture = file.get<std::string_view>("general.architecture");
  if (!architecture) return Unexpected{architecture.error()};
  const auto traits = find_architecture(*architecture);
  if (!traits) {
    return Unexpected{file.error("general.architecture", "one of " + architecture_names(), '"' + printable(*architecture) + '"',
                                 "this architecture is not supported")};
  }
  const auto name = file.find<std::string_view>("general.name");
  const auto tokens = file.get<GgufStrings>("tokenizer.ggml.tokens");
  if (!tokens) return Unexpected{tokens.error()};

  ModelSpec spec;
  spec.traits = *traits;
  spec.name = printable(name ? name->value_or("unnamed") : "unnamed");  // shown, and used for nothing
  spec.vocab_size = static_cast<std::int64_t>(tokens->size());
  SpecReader reader(file, std::string(*architecture) + ".");
  read_sizes(reader, spec);
  spec.norm_epsilon = reader.positive("attention.layer_norm_rms_epsilon", -1.0f);
  read_window(reader, spec);
  refuse_other_models(reader, spec);
  spec.attention_soft_cap = reader.positive_unless_off("attn_logit_softcapping", 0.0f);
  spec.logit_soft_cap = reader.positive_unless_off("final_logit_softcapping", 0.0f);
  const bool by_width = traits->width_scaled_layers == spec.num_layers;
  const std::int64_t scaled_dim = by_width ? std::max<std::int64_t>(1, spec.hidden_size / spec.num_q_heads) : spec.head_dim;
  spec.attention_scale =
      reader.positive_unless_off("attention.scale", static_cast<float>(1.0 / std::sqrt(static_cast<double>(scaled_dim))));
  spec.rope = read_rope(reader, spec);
  spec.window_rope = spec.rope;
  if (traits->window_rope_theta > 0) {
    spec.window_rope = RopeScaling{};
    spec.window_rope.theta =
        static_cast<double>(reader.positive("rope.freq_base_swa", static_cast<float>(traits->window_rope_theta), 1.0f));
  }
  if (traits->scale_embedding) spec.embedding_scale = std::sqrt(static_cast<float>(spec.hidden_size));
  if (reader.error()) return Unexpected{*reader.error()};
  return spec;
}

}  // namespace kvpage::engine
