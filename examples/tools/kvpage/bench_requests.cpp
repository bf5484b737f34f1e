#include "engine/serial_requests.hpp"
#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/interrupt.hpp"
#include "tools/kvpage/loaded_model.hpp"
#include "tools/kvpage/request_file.hpp"
#include "tools/kvpage/request_report.hpp"

#include <algorithm>
#include <chrono>

namespace kvpage::cli {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The trace of a run, if one is wanted. Errors: Failure when it cannot be written.
class TraceFile {
 public:
  TraceFile(const std::optional<std::string>& path, engine::PageCache& cache) : cache_(cache) {
    if (!path) return;
    auto opened = engine::TraceRecorder::open(*path, cache.trace_header(), now_ns);
    if (!opened) throw Failure(kExitUsage, opened.error().message);
    recorder_ = std::move(*opened);
    cache_.record_into(recorder_.get());
  }
  ~TraceFile() { cache_.record_into(nullptr); }
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  engine::TraceRecorder* recorder() const noexcept { return recorder_.get(); }
  void close() {
    if (!recorder_) return;
    if (const auto written = recorder_->flush(); !written) throw Failure(kExitRun, written.error().message);
  }

 private:
  engine::PageCache& cache_;
  std::unique_ptr<engine::TraceRecorder> recorder_;
};

/// The context that the longest request asks for, within the model's limit; at least the usual one.
std::int64_t context_of(const std::vector<engine::EngineRequest>& requests, const engine::ModelSpec& spec) {
  std::int64_t longest = engine::kDefaultContextTokens;
  for (const auto& request : requests) longest = std::max(longest, std::ssize(request.prompt_ids) + request.max_tokens);
  return std::min(longest, spec.context_limit_tokens);
}

}  // namespace

int bench_requests(const BenchOptions& options) {
  std::vector<engine::EngineRequest> requests;
  ModelOptions model = options.model;
  {  // Before the weights: a bad line should not cost a load.
    const TextModel text = open_text_model(options.model.model);
    const engine::ModelSpec spec = loaded(engine::read_model_spec(text.file));
    requests = read_requests(read_text(options.requests), *options.requests, text.tokenizer, spec.vocab_size);
    if (model.context_tokens == 0) model.context_tokens = context_of(requests, spec);
  }
  LoadedModel m = load_model(model, model.context_tokens, engine::kDefaultStepTokens);
  engine::SequenceRunner runner(*m.model, {.evict = options.evict, .share_prefixes = options.model.prefix_cache,
                                           .host_tier_bytes = static_cast<std::int64_t>(options.host_tier_bytes)});
  TraceFile trace(options.trace, runner.cache());
  engine::SerialRequests engine(runner, m.end_tokens);
  engine.record_into(trace.recorder());
  RequestReport report{.options = options, .model = m, .results = {}, .num_blocks = m.model->pool_shape().num_blocks};
  const InterruptScope interrupt;
  const auto start = std::chrono::steady_clock::now();
  for (const engine::EngineRequest& request : requests) {
    if (interrupt.requested()) break;
    m.progress->show("requests", std::ssize(report.results), std::ssize(requests), "requests");
    report.results.push_back(engine.run(request, [&] { return interrupt.requested(); }));
  }
  report.wall_s = seconds_since(start);
  report.counters = runner.cache().counters();
  report.steps = runner.num_steps();
  trace.close();
  options.json ? report.print_json() : report.print_text();
  return kExitOk;
}

}  // namespace kvpage::cli
