/// \file CliEngine: the engine of the program, with policies that the command line names; compiled once.
#pragma once

#include "engine/engine.hpp"
#include "tools/kvpage/options.hpp"

namespace kvpage::engine {

extern template class Engine<NamedPolicies, SystemEnv>;

}  // namespace kvpage::engine

namespace kvpage::cli {

using CliEngine = engine::Engine<NamedPolicies, engine::SystemEnv>;

/// The policies that were asked for. Requires: names of kvpage/sched/any_policies.hpp.
NamedPolicies policies_of(const EngineOptions& options);
/// The limits that were asked for. `num_requests`: of the whole run, all of which may wait when no limit was asked for.
engine::EngineConfig engine_config(const EngineOptions& options, const ModelOptions& model, std::int64_t num_requests);

}  // namespace kvpage::cli
