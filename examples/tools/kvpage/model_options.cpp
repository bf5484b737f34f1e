#include "tools/kvpage/model_options.hpp"

#include "engine/model/language_model.hpp"

#include <kvpage/exec/isa.hpp>

namespace kvpage::cli {
namespace {

/// Why this processor cannot run an instruction set; empty if it can, or if there is no such set, which the option itself says.
std::string why_not_here(const std::string& isa) {
  const auto known = parse_isa(isa);
  const char* missing = known ? missing_feature(*known, detect_cpu_features()) : nullptr;
  return missing == nullptr ? std::string() : isa + ": " + missing;
}

}  // namespace

void add_kernel_options(CLI::App& app, ModelOptions& o) {
  add_choice(app, "--kernels", o.kernels, engine::backend_names(), "implementation of the kernels");
  add_choice(app, "--isa", o.isa, engine::isa_names(), "instruction set of the kernels; without it the widest here");
  add_choice(app, "--kv-type", o.kv_type, engine::kv_type_names(), "precision of the KV cache");
  add_integer(app, "-t,--threads", o.threads, {0, 1024}, "worker threads; 0 = what affinity and cgroup quota allow (reference: always 1)");
}

void add_model_options(CLI::App& app, ModelOptions& o) {
  app.add_option("-m,--model", o.model, "GGUF file (any part of a split model)")->required();
  add_kernel_options(app, o);
  app.get_option("--isa")->check(why_not_here);
  add_switch(app, "--strict-kernels", o.strict_kernels, "end with exit code 4 instead of running a tensor on a slow kernel");
  app.add_option("--packed-cache", o.packed_cache,
                 "folder that keeps the packed weights of models, so that later starts need not pack them; made if missing")
      ->check([](const std::string& folder) { return std::string(folder.empty() ? "a folder is wanted" : ""); });
  add_choice(app, "--progress", o.progress, {"auto", "none", "json"}, "progress of loading and computing");
}

void add_prefix_cache(CLI::App& app, ModelOptions& o) {
  add_switch(app, "!--no-prefix-cache", o.prefix_cache, "compute every prompt from its start");
}

void add_context(CLI::App& app, ModelOptions& o) {
  add_integer(app, "-c,--ctx", o.context_tokens, {2, kMostTokens, /*or_zero=*/true},
              "context in tokens, for a prompt and its answer; 0 = the model's limit, at most 8192");
}

}  // namespace kvpage::cli
