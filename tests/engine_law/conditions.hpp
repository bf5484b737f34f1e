/// \file The circumstances that must not change a text: alone, in batches, in chunks, after hits, preempted, from a tier, anywhere.
#pragma once

#include "engine_law/law_run.hpp"

namespace kvpage_test {

/// The request whose bits are compared: 800 tokens and what follows them.
inline constexpr std::int64_t kLawPromptTokens = 800;
inline constexpr std::int64_t kLawNewTokens = 48;
inline constexpr std::size_t kLawDistinctTokens = 30;
inline constexpr std::int64_t kLawContextTokens = 1024;
/// Chunks of the conditions in a small pool.
inline constexpr std::int64_t kLawSmallChunkTokens = 300;

/// Draws at temperature 1, so that many different tokens come.
kvpage::engine::GenerationRequest law_request(std::vector<TokenId> prompt, std::int64_t max_tokens = kLawNewTokens);

/// The same with several answers: drawn one by one, or beams.
kvpage::engine::GenerationRequest law_request_of(std::vector<TokenId> prompt, std::int64_t num_answers, bool beam);

/// Everything computed in one go and by one thread, alone, on a cold cache: what all others are compared with.
LawCondition one_shot();
/// Each kind of circumstance, for a request that `subject` is; `vocab_size` bounds the tokens of its neighbours.
std::vector<LawCondition> law_conditions(const kvpage::engine::GenerationRequest& subject, std::int64_t vocab_size);
/// The kinds that have to do with the answers of a request, for a `subject` with several of them.
std::vector<LawCondition> answers_conditions(const kvpage::engine::GenerationRequest& subject, std::int64_t vocab_size);
/// Others of the same kinds, and `num_mixed` of several kinds at once.
std::vector<LawCondition> more_conditions(const kvpage::engine::GenerationRequest& subject, std::int64_t vocab_size,
                                          std::uint64_t num_mixed);

}  // namespace kvpage_test
