/// \file HookedModel: a LanguageModel whose steps a test watches, spoils or lets fail.
#pragma once

#include "engine/model/language_model.hpp"
#include "support/argmax_of_logits.hpp"

#include <functional>
#include <utility>
#include <vector>

namespace kvpage_test {

/// Hands every call on to a model that outlives it.
class HookedModel final : public kvpage::engine::LanguageModel {
 public:
  explicit HookedModel(kvpage::engine::LanguageModel& inner) : inner_(inner) {}

  /// Asked before each forward pass; what is not ok is returned instead of running it.
  std::function<kvpage::Status(const kvpage::BatchPlan&)> before_forward;
  /// Gets the logits of row `index` of the step's logit rows, to change them.
  std::function<void(std::int64_t index, std::span<float> logits)> on_logits;

  const kvpage::engine::ModelSpec& spec() const override { return inner_.spec(); }
  const kvpage::KVPoolShape& pool_shape() const override { return inner_.pool_shape(); }
  const kvpage::engine::CacheGroups& cache_groups() const override { return inner_.cache_groups(); }
  std::span<const std::byte> cache_identity() const override { return inner_.cache_identity(); }
  std::span<std::byte> fetch_page(kvpage::BlockId block) override { return inner_.fetch_page(block); }
  void store_page(kvpage::BlockId block) override { inner_.store_page(block); }
  void touch_pool() override { inner_.touch_pool(); }
  std::string_view kv_type() const override { return inner_.kv_type(); }
  std::int64_t page_bytes() const override { return inner_.page_bytes(); }
  std::int64_t step_tokens() const override { return inner_.step_tokens(); }
  std::int64_t context_tokens() const override { return inner_.context_tokens(); }
  std::int64_t max_logit_rows() const override { return inner_.max_logit_rows(); }
  int num_threads() const override { return inner_.num_threads(); }
  std::string_view isa() const override { return inner_.isa(); }
  std::vector<kvpage::engine::KernelUse> kernel_uses() const override { return inner_.kernel_uses(); }
  void keep_hidden(std::span<const std::int64_t> layers) override { inner_.keep_hidden(layers); }
  kvpage::Expected<std::span<const float>, kvpage::Status> hidden(std::int64_t layer) override { return inner_.hidden(layer); }
  kvpage::engine::StepStats step_stats() const override { return inner_.step_stats(); }
  void parallel(std::int64_t n, const kvpage::engine::IndexedTask& body) override { inner_.parallel(n, body); }
  void profile_into(kvpage::engine::StepProfile* profile) override { inner_.profile_into(profile); }

  kvpage::Status forward(const kvpage::BatchPlan& plan) override {
    if (before_forward) {
      if (const kvpage::Status status = before_forward(plan); !status.ok()) return status;
    }
    return inner_.forward(plan);
  }
  kvpage::Expected<std::span<const kvpage::RowArgmax>, kvpage::Status> argmax(std::int64_t first, std::int64_t count) override {
    return on_logits ? argmax_of_logits(*this, first, count, argmaxes_) : inner_.argmax(first, count);
  }
  kvpage::Expected<std::span<const float>, kvpage::Status> logits(std::int64_t first, std::int64_t count) override {
    const auto given = inner_.logits(first, count);
    if (!given || !on_logits) return given;
    logits_.assign(given->begin(), given->end());
    const std::size_t width = logits_.size() / static_cast<std::size_t>(count);
    for (std::int64_t i = 0; i < count; ++i) {
      on_logits(first + i, std::span(logits_).subspan(static_cast<std::size_t>(i) * width, width));
    }
    return std::span<const float>(logits_);
  }

 private:
  kvpage::engine::LanguageModel& inner_;
  std::vector<kvpage::RowArgmax> argmaxes_;
  std::vector<float> logits_;
};

}  // namespace kvpage_test
