#include "engine/memory_plan.hpp"
#include "tools/kvpage/byte_text.hpp"
#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/loaded_model.hpp"

#include <nlohmann/json.hpp>

#include <cinttypes>
#include <cstdio>
#include <optional>
#include <string>

namespace kvpage::cli {
namespace {

/// The answer to --memory.
struct Fit {
  std::int64_t memory_bytes = 0;
  bool fits = false;
  std::int64_t largest_context_tokens = 0;
  std::int64_t largest_num_seqs = 0;
};

/// A plan and what it was made for.
struct Report {
  const engine::ModelSpec& spec;
  const engine::ModelConfig& config;
  std::int64_t context_tokens;
  engine::MemoryPlan plan;
  std::optional<Fit> fit;
};

/// Largest values of --ctx for the asked --seqs, and of --seqs for the asked --ctx.
Fit check_fit(const engine::PlannedModel& model, const engine::ModelConfig& config, std::int64_t memory_bytes) {
  return {.memory_bytes = memory_bytes,
          .fits = engine::plan_memory(model, config).total_bytes() <= memory_bytes,
          .largest_context_tokens = engine::largest_context_tokens(model, config, memory_bytes),
          .largest_num_seqs = engine::largest_num_seqs(model, config, memory_bytes)};
}

void print_line(const char* name, std::int64_t bytes, const std::string& detail) {
  std::printf("%-16s %16" PRId64 "  %12s  %s\n", name, bytes, byte_text(bytes).c_str(), detail.c_str());
}

std::string per_token_text(const KVPlan& kv) {
  return std::to_string(kv.bytes_per_token) + " bytes per token: " + std::to_string(kv.payload_per_token) + " payload + " +
         std::to_string(kv.bytes_per_token - kv.payload_per_token) + " scales and padding";
}

std::string count_text(std::int64_t count) { return count > 0 ? std::to_string(count) : "none"; }

void print_text(const Report& r) {
  const engine::MemoryPlan& plan = r.plan;
  std::printf("%s: context of %" PRId64 " tokens x %" PRId64 " sequence(s), KV type %s, kernels %s\n", r.spec.name.c_str(),
              r.context_tokens, r.config.num_seqs, r.config.kv_type.c_str(), r.config.kernels.c_str());
  print_line("weights", plan.weight_bytes, "as the kernels read them");
  print_line("KV pool", plan.kv.pool_bytes, std::to_string(plan.kv.num_blocks) + " pages of " + std::to_string(plan.kv.page_bytes));
  std::printf("%-16s %16s  %12s  %s\n", "", "", "", per_token_text(plan.kv).c_str());
  print_line("workspace", plan.workspace_bytes, "activations of a step of " + std::to_string(r.config.step_tokens) + " rows, logits");
  print_line("workers", plan.worker_bytes * plan.num_workers,
             std::to_string(plan.num_workers) + " x " + std::to_string(plan.worker_bytes) + " scratch and stack");
  print_line("tokenizer", plan.tokenizer_bytes, "");
  print_line("process", plan.process_bytes, "code and small objects");
  print_line("total", plan.total_bytes(), "of its own; pages of the file in the page cache do not count");
  if (!r.fit) return;
  print_line("memory", r.fit->memory_bytes, r.fit->fits ? "fits" : "does not fit");
  std::printf("largest that fits: --ctx %s with --seqs %" PRId64 "; --seqs %s with --ctx %" PRId64 "\n",
              count_text(r.fit->largest_context_tokens).c_str(), r.config.num_seqs, count_text(r.fit->largest_num_seqs).c_str(),
              r.context_tokens);
}

void print_json(const Report& r) {
  const engine::MemoryPlan& plan = r.plan;
  nlohmann::ordered_json json{{"model", r.spec.name},
                              {"kernels", r.config.kernels},
                              {"kv_type", r.config.kv_type},
                              {"context_tokens", r.context_tokens},
                              {"num_seqs", r.config.num_seqs},
                              {"weight_bytes", plan.weight_bytes},
                              {"pool_bytes", plan.kv.pool_bytes},
                              {"num_blocks", plan.kv.num_blocks},
                              {"block_size", r.config.block_size},
                              {"page_bytes", plan.kv.page_bytes},
                              {"kv_bytes_per_token", plan.kv.bytes_per_token},
                              {"kv_payload_bytes_per_token", plan.kv.payload_per_token},
                              {"workspace_bytes", plan.workspace_bytes},
                              {"worker_bytes", plan.worker_bytes},
                              {"num_workers", plan.num_workers},
                              {"tokenizer_bytes", plan.tokenizer_bytes},
                              {"process_bytes", plan.process_bytes},
                              {"total_bytes", plan.total_bytes()}};
  if (r.fit) {
    json["memory_bytes"] = r.fit->memory_bytes;
    json["fits"] = r.fit->fits;
    json["largest_context_tokens"] = r.fit->largest_context_tokens;
    json["largest_num_seqs"] = r.fit->largest_num_seqs;
  }
  std::printf("%s\n", json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
}

}  // namespace

int plan(const PlanOptions& options) {
  const TextModel text = open_text_model(options.model.model);
  const engine::ModelSpec spec = loaded(engine::read_model_spec(text.file));
  if (auto complete = engine::check_tensors(text.file, spec); !complete) throw_load_failure(complete.error());
  require_context(options.model.context_tokens, spec);
  engine::ModelConfig config = model_config(options.model, options.model.context_tokens, engine::kDefaultStepTokens);
  config.num_seqs = config.logit_rows = options.num_seqs;
  if (config.kv_type.empty()) config.kv_type = engine::default_kv_type(config.kernels);
  const engine::PlannedModel model{text.file, spec, text.tokenizer};
  Report report{spec, config, engine::pool_tokens_of(spec, config), engine::plan_memory(model, config), {}};
  if (options.memory_bytes) report.fit = check_fit(model, config, *options.memory_bytes);
  if (options.json) print_json(report);
  else print_text(report);
  return report.fit && !report.fit->fits ? kExitDoesNotFit : kExitOk;
}

}  // namespace kvpage::cli
