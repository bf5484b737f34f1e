/// \file finish_rule: the one place that decides whether an answer ends with its newest token.
#pragma once

#include <kvpage/sched/request_record.hpp>

#include <algorithm>

KVPAGE_BEGIN_NAMESPACE

/// Why an answer ends with its newest token, or kNone. At one token a stop token or stop string wins over max_new_tokens, which wins
/// over the context or the pool (`limit_reason` when the latter made max_new_tokens smaller). Tokens are judged in order, one by one:
/// nothing behind the one that ends the answer is ever appended.
[[nodiscard]] inline FinishReason finish_rule(const Request& answer, std::span<const TokenId> stop_tokens, bool stopped) noexcept {
  const bool stop = stopped || std::find(stop_tokens.begin(), stop_tokens.end(), answer.tokens.back()) != stop_tokens.end();
  if (stop) return FinishReason::kStop;
  return answer.num_new_tokens() >= answer.max_new_tokens ? answer.limit_reason : FinishReason::kNone;
}

KVPAGE_END_NAMESPACE
