#include "engine/serial_requests.hpp"
#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/interrupt.hpp"
#include "tools/kvpage/loaded_model.hpp"
#include "tools/kvpage/request_file.hpp"
#include "tools/kvpage/request_report.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>

namespace kvpage::cli {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The empty file of the trace, if one is wanted: before a model is loaded for nothing.
/// Errors: Failure when it cannot be created, or is a file that is read.
std::unique_ptr<std::ofstream> create_trace(const BenchOptions& options) {
  if (!options.trace) return nullptr;
  for (const std::string& input : {*options.requests, options.model.model}) {
    std::error_code none;  // a file that is not there yet is no other
    if (!std::filesystem::equivalent(*options.trace, input, none)) continue;
    throw Failure(kExitUsage, "the trace would overwrite " + input + ", which is read; give --trace another file");
  }
  auto file = std::make_unique<std::ofstream>(*options.trace, std::ios::binary);
  if (!*file) throw Failure(kExitRun, "cannot create the trace " + *options.trace + ": " + std::strerror(errno));
  return file;
}

/// What is recorded into it, as long as this lives. Errors: Failure when it cannot be written.
class TraceFile {
 public:
  TraceFile(std::unique_ptr<std::ofstream> file, const std::optional<std::string>& path, engine::PageCache& cache) : cache_(cache) {
    if (!file) return;
    recorder_ = std::make_unique<engine::TraceRecorder>(std::move(file), *path, cache.trace_header(), now_ns);
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
  auto trace_file = create_trace(options);
  LoadedModel m = load_model(model, model.context_tokens, engine::kDefaultStepTokens);
  engine::SequenceRunner runner(*m.model, {.evict = options.evict, .share_prefixes = options.model.prefix_cache,
                                           .host_tier_bytes = options.model.host_tier_bytes});
  TraceFile trace(std::move(trace_file), options.trace, runner.cache());
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
  report.not_run = std::ssize(requests) - std::ssize(report.results);
  report.counters = runner.cache().counters();
  report.steps = runner.num_steps();
  trace.close();
  options.json ? report.print_json() : report.print_text();
  return report.exit_code();
}

}  // namespace kvpage::cli
