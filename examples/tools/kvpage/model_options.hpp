/// \file Command-line options that several verbs share: the model, its kernels, its context and its prefix cache.
#pragma once

#include "tools/kvpage/options.hpp"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace kvpage::cli {

/// "a|b|c".
std::string join(const std::vector<std::string>& names);

/// How a model is computed: --kernels, --isa, --kv-type, --threads. The options' values live in `o`.
void add_kernel_options(CLI::App& app, ModelOptions& o);
/// The same, with the file, --strict-kernels and --progress.
void add_model_options(CLI::App& app, ModelOptions& o);
void add_prefix_cache(CLI::App& app, ModelOptions& o);
void add_context(CLI::App& app, ModelOptions& o);

}  // namespace kvpage::cli
