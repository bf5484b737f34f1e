#include "engine/serial_requests.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace kvpage::engine {

std::string_view name_of(RequestFailure::Kind kind) {
  switch (kind) {
    case RequestFailure::Kind::kContextLimit: return "context_limit";
    case RequestFailure::Kind::kNeverFits: return "never_fits";
    case RequestFailure::Kind::kFailed: return "failed";
  }
  return "";
}

std::optional<RequestFailure> SerialRequests::refusal(const EngineRequest& request) const {
  const std::int64_t prompt = std::ssize(request.prompt_ids);
  const std::int64_t context = runner_.context_tokens();
  if (prompt >= context) {
    return RequestFailure{RequestFailure::Kind::kContextLimit, prompt + 1, context,
                          "the prompt has " + std::to_string(prompt) + " tokens, and a context of " + std::to_string(context) +
                              " leaves no room for an answer"};
  }
  // The last token drawn needs no place.
  const std::int64_t need = runner_.blocks_for(std::min(prompt + request.max_tokens - 1, context));
  const std::int64_t available = runner_.cache().allocator().config().num_blocks;
  if (need <= available) return std::nullopt;
  return RequestFailure{RequestFailure::Kind::kNeverFits, need, available,
                        "prompt and answer need " + std::to_string(need) + " blocks, the pool has " + std::to_string(available) +
                            "; use a larger pool or a smaller max_tokens"};
}

RequestResult SerialRequests::run(const EngineRequest& request, const std::function<bool()>& cancelled) {
  RequestResult result;
  result.id = request.id;
  result.prompt_tokens = std::ssize(request.prompt_ids);
  if (recorder_ != nullptr) {
    TraceRequest submitted;
    submitted.id = request.id, submitted.prompt_ids = request.prompt_ids, submitted.max_tokens = request.max_tokens;
    recorder_->submit(submitted);
  }
  runner_.trace_as(recorder_, request.id);
  result.failure = refusal(request);
  if (!result.failure) answer(request, cancelled, result);
  if (recorder_ != nullptr) {
    const std::string_view reason = result.failure ? name_of(result.failure->kind) : name_of(result.finish);
    recorder_->finish({.id = request.id, .reason = std::string(reason), .output_ids = result.output_ids});
    recorder_->capacity(runner_.cache().allocator().capacity());
  }
  return result;
}

void SerialRequests::answer(const EngineRequest& request, const std::function<bool()>& cancelled, RequestResult& result) {
  const auto start = std::chrono::steady_clock::now();
  const std::int64_t positions_before = runner_.computed_positions();
  GenerationOptions options;
  options.sampling.temperature = 0;
  options.max_tokens = request.max_tokens;
  if (!request.ignore_eos) options.end_tokens = end_tokens_;
  auto generation = generate(runner_, {}, request.prompt_ids, options, {}, cancelled);
  runner_.finish();
  result.positions_computed = runner_.computed_positions() - positions_before;
  result.total_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!generation) {
    result.failure = RequestFailure{RequestFailure::Kind::kFailed, 0, 0, generation.error().message};
    return;
  }
  result.output_ids = std::move(generation->ids);
  result.finish = generation->finish;
  result.cached_tokens = generation->cached_tokens;
  result.ttft_s = generation->prefill_s;
  result.decode_s = generation->decode_s;
}

}  // namespace kvpage::engine
