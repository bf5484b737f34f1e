/// \file Command-line options that several verbs share: the model, its kernels, its context and its prefix cache.
#pragma once

#include "tools/kvpage/options.hpp"
#include "tools/kvpage/typed_options.hpp"

#include <CLI/CLI.hpp>

namespace kvpage::cli {

/// How a model is computed: --kernels, --isa, --kv-type, --threads. The options' values live in `o`.
void add_kernel_options(CLI::App& app, ModelOptions& o);
/// The same of a model that computes here, with the file, --strict-kernels, --packed-cache and --progress.
void add_model_options(CLI::App& app, ModelOptions& o);
void add_prefix_cache(CLI::App& app, ModelOptions& o);
void add_context(CLI::App& app, ModelOptions& o);

}  // namespace kvpage::cli
