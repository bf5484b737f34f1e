#include "tools/kvpage/model_options.hpp"

#include "engine/language_model.hpp"

namespace kvpage::cli {

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : "|") + name;
  return text;
}

void add_kernel_options(CLI::App& app, ModelOptions& o) {
  app.add_option("--kernels", o.kernels, "implementation of the kernels")
      ->check(CLI::IsMember(engine::backend_names()))
      ->capture_default_str();
  app.add_option("--isa", o.isa, "instruction set of the kernels: " + join(engine::isa_names()) + "; without it the widest here")
      ->check(CLI::IsMember(engine::isa_names()));
  app.add_option("--kv-type", o.kv_type, "precision of the KV cache: " + join(engine::kv_type_names()))
      ->check(CLI::IsMember(engine::kv_type_names()));
  app.add_option("-t,--threads", o.threads, "worker threads; 0 = what affinity and cgroup quota allow (reference: always 1)")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

void add_model_options(CLI::App& app, ModelOptions& o) {
  app.add_option("-m,--model", o.model, "GGUF file (any part of a split model)")->required();
  add_kernel_options(app, o);
  app.add_flag("--strict-kernels", o.strict_kernels, "end with exit code 4 instead of running a tensor on a slow kernel");
  app.add_option("--packed-cache", o.packed_cache,
                 "folder that keeps the packed weights of models, so that later starts need not pack them; made if missing")
      ->check([](const std::string& folder) { return std::string(folder.empty() ? "a folder is wanted" : ""); });
  app.add_option("--progress", o.progress, "progress of loading and computing")
      ->check(CLI::IsMember({"auto", "none", "json"}))
      ->capture_default_str();
}

void add_prefix_cache(CLI::App& app, ModelOptions& o) {
  app.add_flag("!--no-prefix-cache", o.prefix_cache, "compute every prompt from its start");
}

void add_context(CLI::App& app, ModelOptions& o) {
  app.add_option("-c,--ctx", o.context_tokens, "context in tokens; 0 = the model's limit, at most 8192")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 31))
      ->capture_default_str();
}

}  // namespace kvpage::cli
