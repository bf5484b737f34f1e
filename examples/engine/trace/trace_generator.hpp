/// \file Generated requests of four known shapes: chat turns, shared system prompts, scans, and a mix of them.
#pragma once

#include "engine/trace/cache_replay.hpp"

#include <array>
#include <string_view>

namespace kvpage::engine {

/// Shapes of generated traces.
///
/// - chat: conversations that grow turn by turn behind one common start; each turn's prompt is everything said before.
/// - system: a few long system prompts of unequal popularity, each with a short question of its own.
/// - scan: a few hot prefixes, asked twice in a row at first and then in turn, with a long document read once between two of them.
/// - mix: all three, one request of each in turn.
inline constexpr std::array<std::string_view, 4> kTraceKinds{"chat", "system", "scan", "mix"};

struct GeneratorOptions {
  std::uint64_t seed = 1;
  std::int64_t num_requests = 600;
};

/// Requests 10 ms apart, a pure function of kind and options. Requires: kind is one of kTraceKinds.
std::vector<ReplayRequest> generate_requests(std::string_view kind, const GeneratorOptions& options);

/// Writes the same requests as a trace, one by one, so that their number does not matter; the header has their seed.
/// Errors: a stream that cannot be written.
Expected<void, TraceError> write_requests(std::unique_ptr<std::ostream> out, const std::string& name, std::string_view kind,
                                          const GeneratorOptions& options);

}  // namespace kvpage::engine
