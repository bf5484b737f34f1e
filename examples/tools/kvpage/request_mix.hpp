/// \file Generated requests of four known shapes, for a bench without a file.
#pragma once

#include "tools/kvpage/options.hpp"
#include "tools/kvpage/request_file.hpp"

#include <array>
#include <string_view>

namespace kvpage::cli {

/// Shapes of generated requests. Lengths are log-uniform: each power of two between the bounds is equally likely.
///
/// - random: prompts of 16 to 512 tokens that share nothing, answers of 8 to 256.
/// - chat: many short talks behind one system prompt of 96 tokens; each turn's prompt is everything said before and 8 to 64 new tokens,
///   answers of 16 to 128, up to 6 turns, 8 talks at a time.
/// - code: completions in 4 files of 768 tokens: the file up to some place behind its first quarter and 4 to 16 new tokens, answers of
///   4 to 64.
/// - long: few long documents of 1024 to 4096 tokens, answers of 64 to 256.
inline constexpr std::array<std::string_view, 4> kMixKinds{"random", "chat", "code", "long"};

/// A pure function of its arguments. Every answer has max_tokens tokens, drawn greedily.
/// Requires: kind is one of kMixKinds, vocab_size > 0.
std::vector<TimedRequest> generate_mix(const MixOptions& options, std::int64_t vocab_size);

}  // namespace kvpage::cli
