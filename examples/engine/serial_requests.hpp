/// \file SerialRequests: requests through a SequenceRunner, one after another, with what each of them got and cost.
#pragma once

#include "engine/finish_names.hpp"
#include "engine/generation.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvpage::engine {

/// What somebody wants.
struct EngineRequest {
  std::string id;
  std::vector<TokenId> prompt_ids;
  std::int64_t max_tokens = 0;
  bool ignore_eos = false;  ///< end tokens are tokens like any other
};

/// Why a request has no answer.
struct RequestFailure {
  enum class Kind : std::uint8_t {
    kContextLimit,  ///< need = tokens of the prompt and one more, available = tokens of the context
    kNeverFits,     ///< need = blocks of the whole answer, available = blocks of the pool
    kFailed,        ///< the model's fault, in the message
  };
  Kind kind{};
  std::int64_t need = 0;
  std::int64_t available = 0;
  std::string message;
};
std::string_view name_of(RequestFailure::Kind kind);

/// What became of a request.
struct RequestResult {
  std::string id;
  std::optional<RequestFailure> failure;  ///< without it, the rest counts
  std::vector<TokenId> output_ids;
  FinishReason finish{};
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;
  std::int64_t positions_computed = 0;
  double ttft_s = 0;    ///< from its start to its first token
  double decode_s = 0;  ///< from then to its end
  double total_s = 0;
};

/// Runs requests greedily, each to its end before the next begins. Requires: runner and end tokens outlive it. Threads: one owner.
class SerialRequests {
 public:
  /// `end_tokens` sorted.
  SerialRequests(SequenceRunner& runner, std::span<const TokenId> end_tokens) : runner_(runner), end_tokens_(end_tokens) {}

  void record_into(TraceRecorder* recorder) noexcept { recorder_ = recorder; }
  /// A request that can never fit is refused at once; nothing is computed for it.
  RequestResult run(const EngineRequest& request, const std::function<bool()>& cancelled = {});

 private:
  std::optional<RequestFailure> refusal(const EngineRequest& request) const;
  void answer(const EngineRequest& request, const std::function<bool()>& cancelled, RequestResult& result);

  SequenceRunner& runner_;
  std::span<const TokenId> end_tokens_;
  TraceRecorder* recorder_ = nullptr;
};

}  // namespace kvpage::engine
