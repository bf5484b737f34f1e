#include "trace/scheduled_load.hpp"

#include "engine/engine_trace.hpp"
#include "engine/trace/cache_trace.hpp"

#include <kvpage/cache/block_allocator.hpp>
#include <kvpage/sched/continuous_scheduler.hpp>
#include <kvpage/sched/order_priority.hpp>

#include <random>

namespace kvpage_test {

using namespace kvpage;

namespace {

/// Counts evictions on the way into the trace.
struct CountingTrace {
  static constexpr bool kEnabled = true;
  engine::CacheTrace trace;
  std::int64_t evictions = 0;
  void on_event(const CacheEvent& event) {
    evictions += event.kind == CacheEventKind::kEvict ? 1 : 0;
    trace.on_event(event);
  }
};

struct LoadEnv {
  std::int64_t time_ns = 1'000'000;
  std::vector<RequestEvent> events{};
  std::int64_t now_ns() noexcept { return time_ns; }
  std::uint64_t draw_seed() noexcept { return 7; }
  std::pmr::memory_resource* memory() noexcept { return std::pmr::get_default_resource(); }
  StepCosts costs() noexcept { return {}; }
  void on_event(const RequestEvent& event) { events.push_back(event); }
};

using Allocator = BlockAllocator<PrefixIndex<>, Lru, CountingTrace>;
using Scheduler = ContinuousScheduler<Allocator, SchedulerPolicies<PriorityOrder>, LoadEnv>;

class ScheduledLoad {
 public:
  ScheduledLoad(const std::string& path, const ScheduledLoadOptions& o)
      : o_(o),
        pool_{.num_blocks = o.num_blocks, .block_size = 16, .max_seqs = 2 * o.max_seqs + 8},
        memory_(Allocator::required_bytes(pool_, index())),
        allocator_(pool_, memory_, index(), Lru{}, CountingTrace{}),
        scheduler_({.budget_tokens = o.budget_tokens, .max_seqs = o.max_seqs}, allocator_, {}, env_),
        recorder_(engine::TraceRecorder::open(path, header(), [this] { return env_.time_ns; }).value()),
        trace_(recorder_.get()) {
    allocator_.events().trace.record_into(recorder_.get());
  }
  ~ScheduledLoad() { allocator_.events().trace.record_into(nullptr); }

  ScheduledCounts run() {
    while (submitted_ < o_.num_requests || scheduler_.num_requests() > 0) {
      while (submitted_ < o_.num_requests && env_.time_ns >= submitted_ * o_.ns_between_requests) submit();
      step();
      deliver();
    }
    recorder_->capacity(allocator_.capacity());
    recorder_->flush().value();
    counts_.stats = scheduler_.stats();
    counts_.evictions = allocator_.events().evictions;
    return counts_;
  }

 private:
  static PrefixIndexOptions<> index() { return PrefixIndexOptions<>{SipSecret::fixed(3, 5)}; }
  engine::TraceHeader header() const {
    auto header = engine::TraceHeader::of(allocator_.config());
    header.policy = "lru";
    return header;
  }
  std::int64_t upto(std::int64_t limit) { return 1 + static_cast<std::int64_t>(rng_() % static_cast<std::uint64_t>(limit)); }

  void submit() {
    engine::GenerationRequest request{.name = "request-" + std::to_string(submitted_)};
    const std::int64_t length = upto(o_.longest_prompt), common = submitted_ % 3 == 0 ? length / 2 : 0;
    for (std::int64_t i = 0; i < length; ++i) {
      request.prompt_ids.push_back(i < common ? static_cast<TokenId>(i) : static_cast<TokenId>(rng_() % 50'000));
    }
    request.max_tokens = upto(o_.longest_answer);
    request.n = submitted_ % 7 == 3 ? 2 : 1;
    const RequestId id{static_cast<std::uint64_t>(++submitted_)};
    const auto ticket = scheduler_.submit({.id = id, .prompt = request.prompt_ids, .max_new_tokens = request.max_tokens,
                                           .num_samples = request.n, .priority = submitted_ % 5 == 0 ? 0 : 3});
    if (!ticket) return;
    trace_.submit(id, request);
    answers_[id.value].resize(static_cast<std::size_t>(request.n));
    counts_.answers += request.n;
  }

  void step() {
    const BatchPlan& plan = scheduler_.plan();
    if (plan.is_empty()) {
      scheduler_.drop();
      env_.time_ns += 1'000'000;
      return;
    }
    trace_.plan(plan);
    scheduler_.seal().value();
    trace_.transfers(plan);
    env_.time_ns += 2'000'123 + 50'001 * plan.num_tokens();
    if (++counts_.sealed_steps % o_.abort_every == 0) {
      static_cast<void>(scheduler_.abort());
    } else {
      std::vector<SampleResult> results(plan.samples.size());
      for (SampleResult& result : results) result.token = static_cast<TokenId>(rng_() % 50'000);
      scheduler_.commit(results);
    }
    env_.time_ns += 10'007;
  }

  void deliver() {
    bool ended = false;
    for (const RequestEvent& event : std::exchange(env_.events, {})) {
      std::vector<TokenId>& tokens = answers_[event.request.value][event.child];
      if (event.has_token) tokens.push_back(event.token), ++counts_.output_tokens;
      if (event.finish != FinishReason::kNone) trace_.finish(event, tokens);
      if (event.last) answers_.erase(event.request.value), ended = true;
    }
    if (ended) trace_.capacity(allocator_.capacity());
  }

  ScheduledLoadOptions o_;
  std::mt19937_64 rng_{11};
  BlockAllocatorConfig pool_;
  std::vector<std::byte> memory_;
  Allocator allocator_;
  LoadEnv env_;
  Scheduler scheduler_;
  std::unique_ptr<engine::TraceRecorder> recorder_;
  engine::EngineTrace trace_;
  std::unordered_map<std::uint64_t, std::vector<std::vector<TokenId>>> answers_;  // of requests in flight
  std::int64_t submitted_ = 0;
  ScheduledCounts counts_;
};

}  // namespace

ScheduledCounts record_scheduled_load(const std::string& path, const ScheduledLoadOptions& options) {
  return ScheduledLoad{path, options}.run();
}

}  // namespace kvpage_test
