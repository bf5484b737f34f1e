#include "engine/generation.hpp"

#include <kvpage/kernels/sample/cpu.hpp>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

namespace kvpage::engine {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::string describe(const SampleError& error) {
  switch (error.kind) {
    case SampleError::Kind::kBadLogit: return "the logit of token " + std::to_string(error.id) + " is NaN or infinite";
    case SampleError::Kind::kNothingAllowed: return "no token may be drawn";
    case SampleError::Kind::kBadArguments: break;
  }
  return "the sampling parameters are out of range";
}

/// Draws tokens for one answer, with the memory that this takes.
class TokenSource {
 public:
  TokenSource(const SamplingParams& params, std::span<const TokenId> prompt) : params_(params), prompt_(prompt) {}

  std::optional<TokenId> draw(std::span<const float> logits, std::span<const TokenId> output, std::int64_t position) {
    const auto vocab_size = static_cast<std::int64_t>(logits.size());
    scratch_.resize(static_cast<std::size_t>(sample_scratch_bytes(vocab_size)) / sizeof(std::uint64_t));
    SampleArgs args;
    args.logits = logits.data();
    args.vocab_size = vocab_size;
    args.params = params_;
    args.prompt_ids = prompt_;
    args.output_ids = output;
    args.position = static_cast<std::uint32_t>(position);
    const DrawResult result = sample_row(args, std::as_writable_bytes(std::span(scratch_)));
    if (result) return *result;
    error_ = describe(result.error());
    return std::nullopt;
  }
  const std::string& error() const noexcept { return error_; }

 private:
  SamplingParams params_;
  std::span<const TokenId> prompt_;
  std::vector<std::uint64_t> scratch_;
  std::string error_;
};

}  // namespace

Expected<Generation, RunError> generate(SequenceRunner& runner, std::span<const TokenId> history, std::span<const TokenId> prompt,
                                        const GenerationOptions& options, const std::function<void(TokenId)>& on_token,
                                        const std::function<bool()>& cancelled) {
  std::vector<TokenId> seen(history.begin(), history.end());
  seen.insert(seen.end(), prompt.begin(), prompt.end());
  TokenSource source(options.sampling, seen);
  Generation answer;
  std::optional<TokenId> next;
  const auto draw = [&](std::int64_t, std::span<const float> logits) {
    next = source.draw(logits, answer.ids, runner.num_tokens());
    return next.has_value();
  };
  const auto is_end = [&](TokenId id) { return std::binary_search(options.end_tokens.begin(), options.end_tokens.end(), id); };

  const auto start = Clock::now();
  std::span<const TokenId> input = prompt;
  TokenId last = 0;
  auto first_token = start;
  while (true) {
    const bool starts = history.empty() && input.data() == prompt.data();
    const auto appended = starts ? runner.start(input, LogitRows::kLast, draw) : runner.append(input, LogitRows::kLast, draw);
    if (!appended) {
      if (!source.error().empty()) return Unexpected{RunError{RunError::Kind::kKernel, source.error()}};
      if (appended.error().kind != RunError::Kind::kStopped) return Unexpected{appended.error()};
      answer.finish = FinishReason::kCancelled;  // by the runner's step visitor, maybe in the middle of the prompt
      if (answer.ids.empty()) answer.prefill_s = seconds_since(start);
      break;
    }
    if (input.data() == prompt.data()) {
      answer.prefill_s = seconds_since(start);
      answer.cached_tokens = starts ? runner.cached_tokens() : 0;
      first_token = Clock::now();
    } else {
      ++answer.decode_steps;
    }
    last = *next;
    answer.finish = FinishReason::kStop;
    if (is_end(last)) break;
    answer.ids.push_back(last);
    if (on_token) on_token(last);
    answer.finish = FinishReason::kLength;
    if (static_cast<std::int64_t>(answer.ids.size()) >= options.max_tokens) break;
    answer.finish = FinishReason::kCapacity;
    if (runner.room_tokens() < 1) break;
    answer.finish = FinishReason::kCancelled;
    if (cancelled && cancelled()) break;
    input = {&last, 1};
  }
  if (!answer.ids.empty()) answer.decode_s = seconds_since(first_token);
  return answer;
}

}  // namespace kvpage::engine
