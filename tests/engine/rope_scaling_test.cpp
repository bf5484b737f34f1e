/// \file B46: what the file says about stretched positions is used, and an unknown way of stretching is an error.
#include "engine/dense_reference.hpp"
#include "engine/tiny_models.hpp"

namespace kvpage_test {
namespace {

constexpr std::size_t kNumIds = 40;

/// The largest difference of the engine's logits, computed in double, from those of `want`.
double difference(const GgufWriter& writer, const Rows& want) {
  const TinyFile file(writer);
  const auto model = file.load(tiny_config("reference"));
  kvpage::engine::SequenceRunner runner(*model);
  const auto got = append_all(runner, some_ids(kNumIds));
  double worst = 0;
  for (std::size_t t = 0; t < got.size(); ++t) {
    for (std::size_t i = 0; i < got[t].size(); ++i) worst = std::max(worst, std::fabs(static_cast<double>(got[t][i]) - want[t][i]));
  }
  return worst;
}

constexpr double kRounding = 1e-4;  // logits of a few units after three layers
constexpr double kVisible = 1e-2;

Rows unscaled_logits() { return DenseReference(plain_model()).logits(some_ids(kNumIds)); }

}  // namespace

TEST_CASE("bug.B46.factors_of_the_file_are_used", "[engine]") {
  const TinyModel model = plain_model();
  GgufWriter writer = tiny_gguf(model);
  std::string factors;
  for (const float factor : {1.0f, 3.0f, 7.5f, 32.0f}) put(factors, factor);
  writer.tensor("rope_freqs.weight", {4}, 0, factors);
  CHECK(difference(writer, DenseReference(model, writer).logits(some_ids(kNumIds))) < kRounding);
  CHECK(difference(writer, unscaled_logits()) > kVisible);
  CHECK(difference(tiny_gguf(model), unscaled_logits()) < kRounding);
  auto& tensor = tensor_of(writer, "rope_freqs.weight");
  tensor.dims[0] = 3, tensor.data.resize(12);
  CHECK(load_error(writer).item.find("rope_freqs.weight") != std::string::npos);
}

TEST_CASE("bug.B46.factors_must_be_divisors", "[engine]") {
  for (const float bad : {0.0f, -2.0f}) {
    GgufWriter writer = tiny_gguf(plain_model());
    std::string factors;
    for (const float factor : {1.0f, bad, 7.5f, 32.0f}) put(factors, factor);
    writer.tensor("rope_freqs.weight", {4}, 0, factors);
    const auto error = load_error(writer);
    CHECK(error.item.find("rope_freqs.weight") != std::string::npos);
    CHECK(error.wanted.find("above 0") != std::string::npos);
  }
}

TEST_CASE("bug.B46.a_scaling_setting_that_is_not_understood_is_named", "[engine]") {
  GgufWriter writer = tiny_gguf(plain_model());
  writer.text("llama.rope.scaling.type", "linear").number("llama.rope.scaling.wobble", 4.0f);
  CHECK(load_error(writer).item.find("rope.scaling.wobble") != std::string::npos);
}

TEST_CASE("bug.B46.linear_scaling_under_all_its_names", "[engine]") {
  const TinyModel model = plain_model();
  DenseReference reference(model);
  reference.full_rope_divisor = 4;
  const Rows want = reference.logits(some_ids(kNumIds));
  for (const char* key : {"llama.rope.scaling.type", "llama.rope.scaling.rope_type"}) {
    GgufWriter writer = tiny_gguf(model);
    writer.text(key, "linear").number("llama.rope.scaling.factor", 4.0f);
    CHECK(difference(writer, want) < kRounding);
  }
  GgufWriter old_name = tiny_gguf(model);
  old_name.number("llama.rope.scale_linear", 4.0f);
  CHECK(difference(old_name, want) < kRounding);
  GgufWriter no_type = tiny_gguf(model);
  no_type.number("llama.rope.scaling.factor", 4.0f);
  CHECK(difference(no_type, want) < kRounding);
  GgufWriter none = tiny_gguf(model);
  none.text("llama.rope.scaling.type", "none").number("llama.rope.scaling.factor", 4.0f);
  CHECK(difference(none, unscaled_logits()) < kRounding);
}

TEST_CASE("bug.B46.yarn_is_used_with_and_without_its_context", "[engine]") {
  GgufWriter writer = tiny_gguf(plain_model());
  writer.text("llama.rope.scaling.type", "yarn").number("llama.rope.scaling.factor", 4.0f);
  CHECK(difference(writer, unscaled_logits()) > kVisible);
  writer.number("llama.rope.scaling.original_context_length", std::uint32_t{32});
  CHECK(difference(writer, unscaled_logits()) > kVisible);
}

TEST_CASE("bug.B46.a_factor_that_is_0_or_absent_scales_nothing", "[engine]") {
  for (const char* type : {"linear", "yarn"}) {
    GgufWriter without = tiny_gguf(plain_model());
    without.text("llama.rope.scaling.type", type);
    CHECK(difference(without, unscaled_logits()) < kRounding);
    GgufWriter zero = tiny_gguf(plain_model());
    zero.text("llama.rope.scaling.type", type).number("llama.rope.scaling.factor", 0.0f);
    CHECK(difference(zero, unscaled_logits()) < kRounding);
  }
}

TEST_CASE("bug.B46.an_unknown_or_impossible_scaling_is_an_error", "[engine]") {
  for (const char* key : {"llama.rope.scaling.type", "llama.rope.scaling.rope_type"}) {
    GgufWriter writer = tiny_gguf(plain_model());
    writer.text(key, "longrope").number("llama.rope.scaling.factor", 4.0f);
    const auto error = load_error(writer);
    CHECK(error.item.find("rope.scaling") != std::string::npos);
    CHECK(error.found.find("longrope") != std::string::npos);
    CHECK(error.wanted.find("linear") != std::string::npos);
  }
  GgufWriter negative = tiny_gguf(plain_model());
  negative.text("llama.rope.scaling.type", "linear").number("llama.rope.scaling.factor", -2.0f);
  CHECK(load_error(negative).item.find("rope.scaling.factor") != std::string::npos);
}

}  // namespace kvpage_test
