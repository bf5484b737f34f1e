/// \file simulate_load: requests over time through a scheduler on a virtual clock, to choose limits and policies without a model.
#pragma once

#include <kvpage/sched/batch_plan.hpp>
#include <kvpage/sched/scheduler_config.hpp>
#include <kvpage/sched/request.hpp>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

KVPAGE_BEGIN_NAMESPACE

/// One request of a load. It says `load_token(its index, i)` as its i-th new token, so that a later turn can repeat its answer.
struct LoadRequest {
  std::vector<TokenId> prompt{};
  std::int64_t new_tokens = 1;      ///< after which the answer stops by itself
  std::int64_t max_new_tokens = 0;  ///< what was asked for; 0 = new_tokens
  std::int64_t arrival_ns = 0;      ///< or, with `after`, the pause behind that answer
  std::int64_t after = -1;          ///< index of an earlier request whose answer this one waits for; -1 = none
  std::int64_t priority = 0;
  std::uint32_t tenant = 0;
};

[[nodiscard]] constexpr TokenId load_token(std::int64_t request, std::int64_t i) noexcept {
  return static_cast<TokenId>((static_cast<std::uint64_t>(request * 65'537 + i) * 0x9E37'79B9'7F4A'7C15ull >> 33) % 50'000);
}

/// A model of a step's time: weights are read once, rows cost arithmetic, and every sequence reads its keys and values.
/// With floor_ns (a processor that computes while it reads) rows are free until they take longer than the floor.
struct StepTime {
  double fixed_ns = 0;
  double floor_ns = 0;
  double row_ns = 0;
  double kv_token_ns = 0;
  [[nodiscard]] std::int64_t operator()(const BatchPlan& batch) const noexcept {
    double kv_tokens = 0;
    for (const std::int64_t length : batch.kv_lens) kv_tokens += static_cast<double>(length);
    const double rows = row_ns * static_cast<double>(batch.num_tokens());
    return static_cast<std::int64_t>(std::max(floor_ns, fixed_ns + rows) + kv_token_ns * kv_tokens);
  }
};

/// How one request fared.
struct LoadAnswer {
  bool refused = false;
  std::int64_t arrival_ns = 0;
  std::int64_t first_token_ns = 0;
  std::int64_t last_token_ns = 0;
  std::int64_t longest_gap_ns = 0;  ///< between two of its tokens
  std::int64_t num_tokens = 0;
  std::int64_t cached_tokens = 0;
  bool ended = false;
  [[nodiscard]] std::int64_t ttft_ns() const noexcept { return first_token_ns - arrival_ns; }
  [[nodiscard]] std::int64_t end_to_end_ns() const noexcept { return last_token_ns - arrival_ns; }
};

/// How all of them fared.
struct LoadReport {
  std::vector<LoadAnswer> answers;  // [num_requests]
  std::int64_t end_ns = 0;
  std::int64_t num_refused = 0;
  SchedulerStats stats{};

  [[nodiscard]] double tokens_per_s() const noexcept {
    return static_cast<double>(stats.sampled_tokens) / (static_cast<double>(end_ns) * 1e-9);
  }
  /// `value(answer)` of the answers that were not refused: mean, and the smallest that a share of them does not exceed.
  template <class Value>
  [[nodiscard]] double mean(Value&& value) const {
    double sum = 0;
    for (const LoadAnswer& a : answers) sum += a.refused ? 0 : static_cast<double>(value(a));
    return sum / static_cast<double>(static_cast<std::int64_t>(answers.size()) - num_refused);
  }
  template <class Value>
  [[nodiscard]] double quantile(double share, Value&& value) const {
    std::vector<double> values;
    for (const LoadAnswer& a : answers) {
      if (!a.refused) values.push_back(static_cast<double>(value(a)));
    }
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    const auto at = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
    return values[at == 0 ? 0 : at - 1];
  }
};

namespace detail {

template <class World, class StepCost>
class LoadSimulation {
 public:
  LoadSimulation(World& world, std::span<const LoadRequest> load, const StepCost& step_ns) : world_(world), load_(load), step_ns_(step_ns) {
    report_.answers.resize(load.size());
    for (std::size_t i = 0; i < load.size(); ++i) {
      if (load[i].after < 0) arrive(i, load[i].arrival_ns);
    }
  }

  LoadReport run() {
    world_.env.events.clear();
    for (;;) {
      submit_arrived();
      const BatchPlan& batch = world_.scheduler.plan();
      if (batch.num_tokens() > 0) {
        step(batch);
      } else {
        world_.scheduler.drop();
        if (arrivals_.empty()) break;
        world_.env.time_ns = std::max(world_.env.time_ns, arrivals_.front().first);
      }
      hear_events();
    }
    KVPAGE_ASSERT(world_.scheduler.num_requests() == 0, "every request of a load ends");
    report_.end_ns = world_.env.time_ns;
    report_.stats = world_.scheduler.stats();
    return std::move(report_);
  }

 private:
  using Arrival = std::pair<std::int64_t, std::size_t>;  // time, index

  void arrive(std::size_t i, std::int64_t time_ns) {
    report_.answers[i].arrival_ns = time_ns;
    arrivals_.emplace_back(time_ns, i);
    std::push_heap(arrivals_.begin(), arrivals_.end(), std::greater<Arrival>{});
  }

  void submit_arrived() {
    while (!arrivals_.empty() && arrivals_.front().first <= world_.env.time_ns) {
      const std::size_t i = arrivals_.front().second;
      std::pop_heap(arrivals_.begin(), arrivals_.end(), std::greater<Arrival>{});
      arrivals_.pop_back();
      const LoadRequest& r = load_[i];
      const RequestSpec spec{.id = RequestId{i},
                             .prompt = r.prompt,
                             .max_new_tokens = r.max_new_tokens == 0 ? r.new_tokens : r.max_new_tokens,
                             .priority = r.priority,
                             .tenant = r.tenant};
      if (!world_.scheduler.submit(spec)) report_.answers[i].refused = true, ++report_.num_refused, end(i);
    }
  }

  void step(const BatchPlan& batch) {
    const bool sealed = world_.scheduler.seal().has_value();
    KVPAGE_ASSERT(sealed, "a load has its cache for itself");
    world_.env.time_ns += step_ns_(batch);
    results_.clear();
    for (const PlannedSample& sample : batch.samples) {
      const auto i = static_cast<std::int64_t>(sample.request.value);
      const std::int64_t made = report_.answers[sample.request.value].num_tokens;
      results_.push_back({.token = load_token(i, made), .stop = made + 1 >= load_[sample.request.value].new_tokens});
    }
    world_.scheduler.commit(results_);
  }

  void hear_events() {
    const std::int64_t now = world_.env.time_ns;
    for (const RequestEvent& event : world_.env.events) {
      LoadAnswer& a = report_.answers[event.request.value];
      a.cached_tokens = event.cached_tokens;
      if (event.has_token) {
        if (a.num_tokens == 0) a.first_token_ns = now;
        if (a.num_tokens > 0) a.longest_gap_ns = std::max(a.longest_gap_ns, now - a.last_token_ns);
        a.last_token_ns = now;
        ++a.num_tokens;
      }
      if (event.last) end(event.request.value);
    }
    world_.env.events.clear();
  }

  void end(std::size_t ended) {
    report_.answers[ended].ended = true;
    for (std::size_t i = ended + 1; i < load_.size(); ++i) {
      if (load_[i].after == static_cast<std::int64_t>(ended)) arrive(i, world_.env.time_ns + load_[i].arrival_ns);
    }
  }

  World& world_;
  std::span<const LoadRequest> load_;
  const StepCost& step_ns_;
  std::vector<Arrival> arrivals_;  // heap, earliest first
  std::vector<SampleResult> results_;
  LoadReport report_;
};

}  // namespace detail

/// Runs `load` to its end. World: a LoadWorld, or anything with its `scheduler`, `env.time_ns` and `env.events`.
/// `step_ns(batch)`: the time of a step, a StepTime or a measured curve. Equal arguments give equal reports, bit for bit.
template <class World, class StepCost>
[[nodiscard]] LoadReport simulate_load(World& world, std::span<const LoadRequest> load, const StepCost& step_ns) {
  return detail::LoadSimulation<World, StepCost>{world, load, step_ns}.run();
}

KVPAGE_END_NAMESPACE
