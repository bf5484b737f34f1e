/// \file Verb: a subcommand of the program and what runs when it was chosen.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>

namespace kvpage::cli {

struct Verb {
  CLI::App* app;
  std::function<int()> action;
};

/// Verbs with files of their own for their options.
Verb add_run(CLI::App& root);
Verb add_bench(CLI::App& root);
/// `kvpage trace`, which has verbs of its own.
Verb add_trace(CLI::App& root);

}  // namespace kvpage::cli
