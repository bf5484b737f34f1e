#include "engine/architectures.hpp"
#include "engine/language_model.hpp"
#include "engine/loader/gguf.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>

namespace kvpage::engine {
namespace {

/// The widest head that the attention kernels take.
constexpr std::int64_t kMaxHeadDim = 512;

/// Reads keys of one architecture and remembers the first error, so that a list of reads stays a list.
class SpecReader {
 public:
  SpecReader(const Gguf& file, std::string prefix) : file_(file), prefix_(std::move(prefix)) {}

  /// A count in [lo, hi]; `fallback` if the key is absent, an error if there is none (fallback < 0).
  std::int64_t count(const std::string& key, std::int64_t lo, std::int64_t hi, std::int64_t fallback = -1) {
    if (error_) return lo;
    const auto value = file_.find<std::uint64_t>(prefix_ + key);
    if (!value) return fail(value.error()), lo;
    if (!*value && fallback < 0) return fail(file_.get<std::uint64_t>(prefix_ + key).error()), lo;
    const std::uint64_t number = value->value_or(static_cast<std::uint64_t>(fallback));
    if (number < static_cast<std::uint64_t>(lo) || number > static_cast<std::uint64_t>(hi)) {
      fail(key, "a number in [" + std::to_string(lo) + ", " + std::to_string(hi) + "]", std::to_string(number));
      return lo;
    }
    return static_cast<std::int64_t>(number);
  }

  /// A finite number above `lowest`, or `fallback`, or an error if that is negative.
  float positive(const std::string& key, float fallback, float lowest = 0) {
    if (error_) return 1;
    const auto value = file_.find<float>(prefix_ + key);
    if (!value) return fail(value.error()), 1.0f;
    if (!*value && fallback < 0) return fail(file_.get<float>(prefix_ + key).error()), 1.0f;
    const float number = value->value_or(fallback);
    if (*value && !(std::isfinite(number) && number > lowest)) {
      fail(key, "a finite number above " + std::to_string(static_cast<int>(lowest)), std::to_string(number));
    }
    return number;
  }

  std::string text(const std::string& key, const std::string& fallback) {
    if (error_) return fallback;
    const auto value = file_.find<std::string_view>(prefix_ + key);
    if (!value) return fail(value.error()), fallback;
    return *value ? std::string(**value) : fallback;
  }

  /// Keys below `group` that are not among `known`: what is not understood must not be ignored.
  void require_known(const std::string& group, std::initializer_list<std::string_view> known) {
    for (const GgufEntry& entry : file_.metadata()) {
      if (!entry.key.starts_with(prefix_ + group)) continue;
      const std::string_view rest = entry.key.substr(prefix_.size() + group.size());
      if (std::find(known.begin(), known.end(), rest) == known.end()) {
        fail(group + printable(rest), "a setting that is supported", "an unknown one");
      }
    }
  }

  void fail(const std::string& key, std::string wanted, std::string found) {
    fail(file_.error(prefix_ + key, std::move(wanted), std::move(found), "the file is damaged or describes another kind of model"));
  }
  void fail(LoadError error) {
    if (!error_) error_ = std::move(error);
  }
  const std::optional<LoadError>& error() const noexcept { return error_; }

 private:
  const Gguf& file_;
  std::string prefix_;
  std::optional<LoadError> error_;
};

/// RoPE scaling of the layers that see everything. An unknown type is an error: ignoring it gives quietly wrong text.
RopeScaling read_rope(SpecReader& reader) {
  RopeScaling rope;
  reader.require_known("rope.scaling.", {"type", "rope_type", "factor", "original_context_length", "finetuned", "attn_factor",
                                         "yarn_attn_factor", "yarn_beta_fast", "yarn_beta_slow"});
  rope.theta = static_cast<double>(reader.positive("rope.freq_base", 10000.0f, 1.0f));
  // A `type` may stand under either of two names. Without one a factor is linear, and older files call it scale_linear.
  const std::string type = reader.text("rope.scaling.type", reader.text("rope.scaling.rope_type", ""));
  const float linear = reader.positive("rope.scale_linear", 1.0f);
  const bool needs_factor = type == "linear" || type == "yarn";
  rope.factor = static_cast<double>(reader.positive("rope.scaling.factor", needs_factor && linear == 1.0f ? -1.0f : linear));
  if (type == "none") {
    rope.factor = 1.0;
  } else if (type == "linear" || type.empty()) {
    if (rope.factor != 1.0) rope.kind = RopeScalingKind::kLinear;
  } else if (type == "yarn") {
    rope.kind = RopeScalingKind::kYarn;
    rope.original_context = static_cast<double>(reader.count("rope.scaling.original_context_length", 1, std::int64_t{1} << 40));
    rope.magnitude_scale =
        static_cast<double>(reader.positive("rope.scaling.attn_factor", reader.positive("rope.scaling.yarn_attn_factor", 1.0f)));
    rope.beta_fast = static_cast<double>(reader.positive("rope.scaling.yarn_beta_fast", 32.0f));
    rope.beta_slow = static_cast<double>(reader.positive("rope.scaling.yarn_beta_slow", 1.0f));
  } else {
    reader.fail("rope.scaling.type", "none, linear or yarn", '"' + printable(type) + '"');
  }
  return rope;
}

void read_sizes(SpecReader& reader, ModelSpec& spec) {
  constexpr std::int64_t kMaxSize = std::int64_t{1} << 24;
  spec.num_layers = reader.count("block_count", 1, 1 << 16);
  spec.hidden_size = reader.count("embedding_length", 1, kMaxSize);
  spec.ffn_size = reader.count("feed_forward_length", 1, kMaxSize);
  spec.num_q_heads = reader.count("attention.head_count", 1, 1 << 16);
  spec.num_kv_heads = reader.count("attention.head_count_kv", 1, 1 << 16, spec.num_q_heads);
  spec.head_dim = reader.count("attention.key_length", 1, 1 << 16, spec.hidden_size / spec.num_q_heads);
  spec.rotary_dim = reader.count("rope.dimension_count", 1, 1 << 16, spec.head_dim);
  spec.context_limit_tokens = reader.count("context_length", 1, std::int64_t{1} << 40);
  spec.window_tokens = reader.count("attention.sliding_window", 0, std::int64_t{1} << 40, 0);
  spec.traits.full_attention_period =
      static_cast<int>(reader.count("attention.sliding_window_pattern", 0, 1 << 16, spec.traits.full_attention_period));
  if (spec.num_q_heads % spec.num_kv_heads != 0) {
    reader.fail("attention.head_count", "a multiple of attention.head_count_kv = " + std::to_string(spec.num_kv_heads),
                std::to_string(spec.num_q_heads));
  }
  if (spec.head_dim % 8 != 0 || spec.head_dim > kMaxHeadDim) {
    reader.fail("attention.key_length",
                "a multiple of 8 up to " + std::to_string(kMaxHeadDim) + " (by default embedding_length / head_count)",
                std::to_string(spec.head_dim));
  }
  const std::int64_t value_dim = reader.count("attention.value_length", 1, 1 << 16, spec.head_dim);
  if (value_dim != spec.head_dim) {
    reader.fail("attention.value_length", "the key length " + std::to_string(spec.head_dim), std::to_string(value_dim));
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
  if (!name) return Unexpected{name.error()};
  const auto tokens = file.get<GgufStrings>("tokenizer.ggml.tokens");
  if (!tokens) return Unexpected{tokens.error()};

  ModelSpec spec;
  spec.traits = *traits;
  spec.name = printable(name->value_or("unnamed"));
  spec.vocab_size = static_cast<std::int64_t>(tokens->size());
  SpecReader reader(file, std::string(*architecture) + ".");
  read_sizes(reader, spec);
  spec.norm_epsilon = reader.positive("attention.layer_norm_rms_epsilon", -1.0f);
  spec.attention_soft_cap = reader.positive("attn_logit_softcapping", 0.0f);
  spec.logit_soft_cap = reader.positive("final_logit_softcapping", 0.0f);
  spec.attention_scale = reader.positive("attention.scale", static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec.head_dim))));
  spec.rope = read_rope(reader);
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
