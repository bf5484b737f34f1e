/// \file Generation: continues a sequence token by token until it ends.
#pragma once

#include "engine/sequence_runner.hpp"

#include <kvpage/kernels/sample/args.hpp>
#include <kvpage/sched/request.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace kvpage::engine {

struct GenerationOptions {
  SamplingParams sampling{};
  std::int64_t max_tokens = 256;
  std::span<const TokenId> end_tokens{};  // sorted
};

struct Generation {
  std::vector<TokenId> ids;  ///< without the end token
  FinishReason finish = FinishReason::kLength;
  double prefill_s = 0;      ///< from the start to the first token's logits
  double decode_s = 0;       ///< from then to the end
  std::int64_t decode_steps = 0;
  std::int64_t cached_tokens = 0;  ///< of the prompt, those that the page cache had
};

/// Starts a sequence with `prompt`, or appends it if there is a history (all tokens of the runner's sequence before it), and generates.
/// `on_token` gets every token but the end token. `cancelled` is asked after every token; a step visitor of the runner can stop in the
/// middle of a prompt.
/// Ensures: every generated token is in the cache except the last one drawn (and an end token).
/// Errors: as SequenceRunner::append; also when the prompt leaves no room for a single token.
Expected<Generation, RunError> generate(SequenceRunner& runner, std::span<const TokenId> history, std::span<const TokenId> prompt,
                                        const GenerationOptions& options, const std::function<void(TokenId)>& on_token,
                                        const std::function<bool()>& cancelled);

}  // namespace kvpage::engine
