/// \file TableModel: a model whose logits a test writes down, for each token and position.
#pragma once

#include "engine/model/language_model.hpp"
#include "support/argmax_of_logits.hpp"

#include <kvpage/exec/cpu.hpp>

#include <functional>
#include <utility>
#include <vector>

namespace kvpage_test {

/// Fills the logits behind a token at a position. // row: [vocab_size]
/// With TableModelConfig::sees_history the "token" is a digest of all tokens up to there.
using LogitsOf = std::function<void(kvpage::TokenId token, std::int64_t position, std::span<float> row)>;

struct TableModelConfig {
  std::int64_t vocab_size = 16;
  std::int64_t num_blocks = 2'048;
  std::int64_t block_size = 4;
  std::int64_t logit_rows = 5;  ///< few: a step takes several launches
  int num_threads = 2;
  bool sees_history = false;
};

/// What a model with sees_history knows of a text.
inline kvpage::TokenId digest_of(std::span<const kvpage::TokenId> history) {
  std::uint32_t digest = 17;
  for (const kvpage::TokenId token : history) digest = (digest ^ token) * 0x01000193u;
  return digest;
}

/// Runs no layer: a page keeps the tokens of its slots, and a row of logits depends on the row's token and position, or on all that the
/// pages of its sequence hold.
class TableModel final : public kvpage::engine::LanguageModel {
 public:
  TableModel(const TableModelConfig& config, LogitsOf logits_of)
      : config_(config), logits_of_(std::move(logits_of)), cpu_(kvpage::CpuConfig{.num_threads = config.num_threads}) {
    spec_.num_layers = spec_.hidden_size = spec_.ffn_size = spec_.num_q_heads = spec_.num_kv_heads = spec_.head_dim = 1;
    spec_.vocab_size = config.vocab_size;
    spec_.context_limit_tokens = config.num_blocks * config.block_size;
    shape_ = {.num_layers = 1, .num_kv_heads = 1, .head_dim = 1, .block_size = config.block_size, .num_blocks = config.num_blocks};
    groups_ = {.layers_per_page = 1, .window_tokens = {0}, .places = {{}}};
    pages_.resize(static_cast<std::size_t>(config.num_blocks * config.block_size));
  }

  const kvpage::engine::ModelSpec& spec() const override { return spec_; }
  const kvpage::KVPoolShape& pool_shape() const override { return shape_; }
  const kvpage::engine::CacheGroups& cache_groups() const override { return groups_; }
  std::span<const std::byte> cache_identity() const override { return {}; }
  void store_page(kvpage::BlockId) override {}
  void touch_pool() override {}
  std::span<std::byte> fetch_page(kvpage::BlockId block) override {
    return std::as_writable_bytes(std::span(pages_).subspan(static_cast<std::size_t>(block.value * config_.block_size),
                                                            static_cast<std::size_t>(config_.block_size)));
  }
  std::string_view kv_type() const override { return "none"; }
  std::int64_t page_bytes() const override { return config_.block_size * static_cast<std::int64_t>(sizeof(kvpage::TokenId)); }
  std::int64_t step_tokens() const override { return 1'024; }
  std::int64_t context_tokens() const override { return spec_.context_limit_tokens; }
  std::int64_t max_logit_rows() const override { return config_.logit_rows; }
  int num_threads() const override { return config_.num_threads; }
  std::string_view isa() const override { return {}; }
  std::vector<kvpage::engine::KernelUse> kernel_uses() const override { return {}; }
  void keep_hidden(std::span<const std::int64_t>) override {}
  kvpage::Expected<std::span<const float>, kvpage::Status> hidden(std::int64_t layer) override {
    return kvpage::Unexpected{kvpage::Status{kvpage::StatusCode::kInvalidArgument, "a table has no hidden states", layer, 0}};
  }
  kvpage::engine::StepStats step_stats() const override { return {}; }
  void profile_into(kvpage::engine::StepProfile*) override {}

  kvpage::Status forward(const kvpage::BatchPlan& plan) override {
    if (config_.sees_history) keep_tokens(plan);
    rows_.clear();
    for (const std::int64_t row : plan.logit_rows) rows_.emplace_back(seen_by(plan, row), plan.positions[static_cast<std::size_t>(row)]);
    return {};
  }
  kvpage::Expected<std::span<const kvpage::RowArgmax>, kvpage::Status> argmax(std::int64_t first, std::int64_t count) override {
    return argmax_of_logits(*this, first, count, argmaxes_);
  }
  kvpage::Expected<std::span<const float>, kvpage::Status> logits(std::int64_t first, std::int64_t count) override {
    if (failing_calls > 0 && first > 0) {
      --failing_calls;
      return kvpage::Unexpected{kvpage::Status{kvpage::StatusCode::kDeviceError, "as the test wants it"}};
    }
    const auto vocab_size = static_cast<std::size_t>(config_.vocab_size);
    logits_.assign(static_cast<std::size_t>(count) * vocab_size, 0.0f);
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      const auto [token, position] = rows_[static_cast<std::size_t>(first) + i];
      logits_of_(token, position, std::span(logits_).subspan(i * vocab_size, vocab_size));
    }
    return std::span<const float>(logits_);
  }
  void parallel(std::int64_t n, const kvpage::engine::IndexedTask& body) override {
    cpu_.parallel_for(n, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) body(i);
    });
  }

  int failing_calls = 0;  ///< so many calls of logits for another row than the first fail

 private:
  kvpage::TokenId& slot(kvpage::BlockId block, std::uint32_t offset) {
    return pages_[static_cast<std::size_t>(block.value * config_.block_size + offset)];
  }
  void keep_tokens(const kvpage::BatchPlan& plan) {
    for (const kvpage::CopyOp& copy : plan.copies) {
      for (std::uint32_t i = 0; i < copy.num_tokens; ++i) slot(copy.target, i) = slot(copy.source, i);
    }
    for (std::size_t row = 0; row < plan.tokens.size(); ++row) {
      const kvpage::KVSlot place = plan.groups[0].write_slots[row];
      if (!(place == kvpage::kNoSlot)) slot(place.block, place.offset) = plan.tokens[row];
    }
  }
  kvpage::TokenId seen_by(const kvpage::BatchPlan& plan, std::int64_t row) {
    if (!config_.sees_history) return plan.tokens[static_cast<std::size_t>(row)];
    std::size_t s = 0;
    while (plan.sequences[s].q_begin + plan.sequences[s].q_count <= row) ++s;
    std::vector<kvpage::TokenId> history;
    for (std::int64_t p = 0; p <= plan.positions[static_cast<std::size_t>(row)]; ++p) {
      const auto entry = static_cast<std::size_t>(plan.groups[0].indptr[s] + p / config_.block_size);
      history.push_back(slot(plan.groups[0].block_ids[entry], static_cast<std::uint32_t>(p % config_.block_size)));
    }
    return digest_of(history);
  }

  TableModelConfig config_;
  LogitsOf logits_of_;
  kvpage::Cpu cpu_;
  kvpage::engine::ModelSpec spec_;
  kvpage::KVPoolShape shape_;
  kvpage::engine::CacheGroups groups_;
  std::vector<kvpage::TokenId> pages_;
  std::vector<std::pair<kvpage::TokenId, std::int64_t>> rows_;
  std::vector<kvpage::RowArgmax> argmaxes_;
  std::vector<float> logits_;
};

/// The same logits everywhere.
inline LogitsOf constant_logits(std::vector<float> values) {
  return [values](kvpage::TokenId, std::int64_t, std::span<float> row) { std::copy(values.begin(), values.end(), row.begin()); };
}

/// Logits in [0, 4) that look random, of token, position and id; `levels` > 0: only so many different ones, so that ties are frequent.
inline LogitsOf hashed_logits(std::uint64_t seed, std::uint32_t levels = 0) {
  return [seed, levels](kvpage::TokenId token, std::int64_t position, std::span<float> row) {
    for (std::size_t id = 0; id < row.size(); ++id) {
      std::uint64_t h = seed * 0x9E3779B97F4A7C15u + token * 0xD1B54A32D192ED03u;
      h += static_cast<std::uint64_t>(position) * 0x8CB92BA72F3D8DD7u + id;
      h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9u;
      h = (h ^ h >> 27) * 0x94D049BB133111EBu;
      h ^= h >> 31;
      row[id] = levels > 0 ? static_cast<float>(h % levels) : static_cast<float>(h >> 40) * 0x1p-22f;
    }
  };
}

}  // namespace kvpage_test
