// The scheduler of the library on a virtual clock, for requests and a curve of step times that were measured: what continuous batching
// can gain on that machine. sched_replay_bench REQUESTS CURVE MAX_SEQS BUDGET_TOKENS NUM_BLOCKS BLOCK_SIZE continuous|static
// REQUESTS: JSON lines {"prompt_ids", "max_tokens", "arrival_ms"}, as `kvpage bench --requests` reads them.
// CURVE: JSON [[rows, seconds], ...].
// Prints one JSON object: wall_s, output_tokens, steps [[rows, sequences, seconds], ...], ttft_s and end_to_end_s of every request.
#include <kvpage/sched/simulator/load_world.hpp>
#include <kvpage/sched/any_policies.hpp>
#include <kvpage/sched/simulator/simulate_load.hpp>

#include <nlohmann/json.hpp>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

namespace {

using namespace kvpage;
using Json = nlohmann::json;
using Policies = SchedulerPolicies<AnyOrder>;

/// Step time by rows: straight lines between the points, and on behind the last two.
class StepCurve {
 public:
  explicit StepCurve(const Json& points) {
    for (const Json& point : points) points_.emplace_back(point.at(0).get<double>(), point.at(1).get<double>());
    if (points_.size() < 2) throw std::runtime_error("a curve has at least two points");
  }
  [[nodiscard]] double seconds(double rows) const {
    std::size_t right = 1;
    while (right + 1 < points_.size() && points_[right].first < rows) ++right;
    const auto [x0, y0] = points_[right - 1];
    const auto [x1, y1] = points_[right];
    return std::max(0.0, y0 + (y1 - y0) * (rows - x0) / (x1 - x0));
  }

 private:
  std::vector<std::pair<double, double>> points_;  // (rows, seconds), by rows
};

/// The cost of a step, which also keeps what it was asked for.
struct RecordingCost {
  const StepCurve* curve;
  Json* steps;
  std::int64_t operator()(const BatchPlan& batch) const {
    const double seconds = curve->seconds(static_cast<double>(batch.num_tokens()));
    steps->push_back({batch.num_tokens(), batch.num_seqs(), seconds});
    return static_cast<std::int64_t>(seconds * 1e9);
  }
};

std::vector<LoadRequest> read_load(const char* path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(std::string("cannot open ") + path);
  std::vector<LoadRequest> load;
  for (std::string line; std::getline(file, line);) {
    const Json json = Json::parse(line);
    load.push_back({.prompt = json.at("prompt_ids").get<std::vector<TokenId>>(), .new_tokens = json.at("max_tokens")});
    load.back().arrival_ns = static_cast<std::int64_t>(json.value("arrival_ms", 0.0) * 1e6);
  }
  return load;
}

int replay(char** argv) {
  const std::vector<LoadRequest> load = read_load(argv[1]);
  std::ifstream curve_file(argv[2]);
  const StepCurve curve(Json::parse(curve_file));
  const SchedulerConfig limits{
      .budget_tokens = std::atoll(argv[4]), .max_seqs = std::atoll(argv[3]), .max_waiting = std::max<std::int64_t>(1, std::ssize(load))};
  const BlockAllocatorConfig pool{.num_blocks = std::atoll(argv[5]), .block_size = std::atoll(argv[6]), .max_seqs = limits.max_seqs};
  const AnyOrder order = std::string(argv[7]) == "static" ? AnyOrder{StaticBatch{}} : AnyOrder{Fcfs{}};
  LoadWorld<Policies> world(pool, limits, Policies{order, {}, {}});
  Json steps = Json::array();
  const LoadReport report = simulate_load(world, load, RecordingCost{&curve, &steps});
  Json ttft = Json::array(), end_to_end = Json::array();
  for (const LoadAnswer& answer : report.answers) {
    ttft.push_back(static_cast<double>(answer.ttft_ns()) * 1e-9);
    end_to_end.push_back(static_cast<double>(answer.end_to_end_ns()) * 1e-9);
  }
  const Json all{{"wall_s", static_cast<double>(report.end_ns) * 1e-9}, {"output_tokens", report.stats.sampled_tokens},
                 {"steps", steps}, {"ttft_s", ttft}, {"end_to_end_s", end_to_end}};
  std::printf("%s\n", all.dump().c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) {
    std::fprintf(stderr, "usage: %s REQUESTS CURVE MAX_SEQS BUDGET_TOKENS NUM_BLOCKS BLOCK_SIZE continuous|static\n", argv[0]);
    return 2;
  }
  try {
    return replay(argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}
