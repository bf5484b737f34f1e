/// \file SituationLoads: requests of four typical situations, drawn from a seed, and two machines; what the presets are measured on.
#pragma once

#include <kvpage/sched/simulator/sim_random.hpp>
#include <kvpage/sched/simulator/simulate_load.hpp>

KVPAGE_BEGIN_NAMESPACE

/// A processor that computes while it reads weights, as a GPU does: hundreds of rows cost what one costs.
/// Numbers in the size of an 8-billion-parameter model on a card with 2.4 TB/s.
inline constexpr StepTime kGpuLikeStep{.floor_ns = 7e6, .row_ns = 25e3, .kv_token_ns = 55};
/// A processor for which every row costs: two cores and a model of 135 million parameters.
inline constexpr StepTime kCpuLikeStep{.fixed_ns = 5e6, .row_ns = 1.5e6, .kv_token_ns = 1500};

/// Draws loads. Times of arrival come from a mean distance, so that one load suits slow and fast machines.
class SituationLoads {
 public:
  explicit SituationLoads(std::uint64_t seed) noexcept : random_(seed, 7) {}

  /// Log-uniform in [low, high].
  [[nodiscard]] std::int64_t log_uniform(std::int64_t low, std::int64_t high) {
    const double ratio = std::log(static_cast<double>(high) / static_cast<double>(low));
    return std::clamp(static_cast<std::int64_t>(std::llround(static_cast<double>(low) * std::exp(unit() * ratio))), low, high);
  }

  /// Few requests with long text: prompts of 2,048 to 16,384 tokens, answers of 64 to 256 of 512 allowed.
  [[nodiscard]] std::vector<LoadRequest> long_text(std::size_t count, double mean_distance_ns) {
    std::vector<LoadRequest> load(count);
    for (LoadRequest& r : load) {
      r = {.prompt = text(log_uniform(2048, 16'384)), .new_tokens = log_uniform(64, 256), .max_new_tokens = 512};
      r.arrival_ns = next_arrival(mean_distance_ns);
    }
    return load;
  }

  /// Chats of three turns: one of eight system prompts, questions of 16 to 96 tokens, answers of 16 to 256 of 512 allowed, a pause of
  /// 16 mean distances between turns.
  [[nodiscard]] std::vector<LoadRequest> chats(std::size_t num_chats, double mean_distance_ns) {
    std::vector<std::vector<TokenId>> systems(8);
    for (auto& system : systems) system = text(log_uniform(128, 768));
    std::vector<LoadRequest> load;
    for (std::size_t chat = 0; chat < num_chats; ++chat) {
      std::vector<TokenId> history = systems[pick(systems.size())];
      for (int turn = 0; turn < 3; ++turn) {
        const auto index = static_cast<std::int64_t>(load.size());
        append(history, text(log_uniform(16, 96)));
        LoadRequest r{.prompt = history, .new_tokens = log_uniform(16, 256), .max_new_tokens = 512};
        r.arrival_ns = turn == 0 ? next_arrival(mean_distance_ns) : static_cast<std::int64_t>(mean_distance_ns * 16);
        r.after = turn == 0 ? -1 : index - 1;
        for (std::int64_t i = 0; i < r.new_tokens; ++i) history.push_back(load_token(index, i));
        load.push_back(std::move(r));
      }
    }
    return load;
  }

  /// Code completion: one of twelve repositories as a common context of 1,024 to 4,096 tokens, a file of its own of 64 to 256 tokens,
  /// answers of 8 to 48 of 128 allowed.
  [[nodiscard]] std::vector<LoadRequest> code(std::size_t count, double mean_distance_ns) {
    std::vector<std::vector<TokenId>> repositories(12);
    for (auto& repository : repositories) repository = text(log_uniform(1024, 4096));
    std::vector<LoadRequest> load(count);
    for (LoadRequest& r : load) {
      r = {.prompt = repositories[pick(repositories.size())], .new_tokens = log_uniform(8, 48), .max_new_tokens = 128};
      append(r.prompt, text(log_uniform(64, 256)));
      r.arrival_ns = next_arrival(mean_distance_ns);
    }
    return load;
  }

  /// A small device with one user and a few programs in the background: prompts of 32 to 512 tokens, answers of 16 to 128 of 256 allowed.
  [[nodiscard]] std::vector<LoadRequest> edge(std::size_t count, double mean_distance_ns) {
    std::vector<LoadRequest> load(count);
    for (LoadRequest& r : load) {
      r = {.prompt = text(log_uniform(32, 512)), .new_tokens = log_uniform(16, 128), .max_new_tokens = 256};
      r.arrival_ns = next_arrival(mean_distance_ns);
    }
    return load;
  }

 private:
  [[nodiscard]] double unit() { return static_cast<double>(random_.next() >> 11) * 0x1p-53; }
  [[nodiscard]] std::size_t pick(std::size_t count) { return static_cast<std::size_t>(random_.next() % count); }
  [[nodiscard]] std::int64_t next_arrival(double mean_distance_ns) {
    now_ns_ -= mean_distance_ns * std::log(1 - unit());
    return static_cast<std::int64_t>(now_ns_);
  }
  [[nodiscard]] std::vector<TokenId> text(std::int64_t num_tokens) {
    std::vector<TokenId> tokens(static_cast<std::size_t>(num_tokens));
    for (TokenId& token : tokens) token = static_cast<TokenId>(random_.next() % 50'000);
    return tokens;
  }
  static void append(std::vector<TokenId>& tokens, const std::vector<TokenId>& more) {
    tokens.insert(tokens.end(), more.begin(), more.end());
  }

  SimRandom random_;
  double now_ns_ = 0;
};

KVPAGE_END_NAMESPACE
