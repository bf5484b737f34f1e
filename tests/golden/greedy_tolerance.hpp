/// \file Tolerance: how close to floats each class of kernels must stay, and which class a loaded model belongs to.
#pragma once

#include "engine/model/language_model.hpp"
#include "support/catch.hpp"

#include <string>

namespace kvpage_test {

/// How far scores may be from the golden ones, which were computed with floats and exactly decoded weights.
struct Tolerance {
  const char* kernels;       ///< what computes so
  double min_margin;         ///< argmax must be equal where the golden margin is at least this
  double row_share, row_nat; ///< a row's prompt_nll: within the larger of a share of it and this many nats
  double sum_share;          ///< the sum of a file's prompt_nll
  double logprob;            ///< single log-probabilities, in nats
};

/// Double everywhere, caches of 32-bit floats.
inline constexpr Tolerance kDoubleTolerance{"double", 0.002, 1e-4, 0, 1e-4, 0.002};
/// Float activations, caches of 16-bit or 32-bit floats.
inline constexpr Tolerance kFloatTolerance{"float activations", 0.05, 0.002, 0.05, 0.001, 0.15};
/// Activations quantised to 8 bits in groups of 32, caches of 16-bit floats. Single log-probabilities: the largest error seen is 1.34 nat,
/// after the one-token prompt of qwen1.5b, where llama.cpp errs by 1.77.
inline constexpr Tolerance kInt8Tolerance{"int8 activations", 1.0, 0.02, 1.5, 0.005, 1.5};

/// The golden numbers are printed with four digits behind the point.
inline constexpr double kPrinted = 5e-5;

/// The loosest class among the kernels that the model says it runs. A name that belongs to no class fails the test.
inline Tolerance tolerance_of(const kvpage::engine::LanguageModel& model) {
  const auto uses = model.kernel_uses();
  REQUIRE(!uses.empty());
  bool any_int8 = false, any_float = false;
  for (const auto& use : uses) {
    if (use.operation != "gemm") continue;  // the other operations compute in floats or better, whatever the class
    // Panels of plain floats take the activations as they are, those of blocks of codes quantise them.
    const bool is_panel = use.kernel.find(" panels") != std::string::npos;
    const bool is_plain = use.kernel.starts_with("F32 ") || use.kernel.starts_with("F16 ") || use.kernel.starts_with("BF16 ");
    const bool is_float = (is_panel && is_plain) || use.kernel == "decoded floats";
    INFO("tests/golden/greedy_tolerance.hpp must say how close the kernel '" << use.kernel << "' comes");
    REQUIRE((is_panel || is_float || use.kernel == "double"));
    any_int8 |= is_panel && !is_plain;
    any_float |= is_float;
  }
  if (any_int8) return kInt8Tolerance;
  if (!any_float) return kDoubleTolerance;
  Tolerance tolerance = kFloatTolerance;
  // Keys with a large bias (the models that have one) lose digits in 16-bit floats.
  if (model.kv_type() == "f16" && std::string_view(model.spec().traits.name) == "qwen2") tolerance.row_share = 0.015;
  return tolerance;
}

}  // namespace kvpage_test
