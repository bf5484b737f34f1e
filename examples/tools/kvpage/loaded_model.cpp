#include "tools/kvpage/loaded_model.hpp"

#include "engine/available_memory.hpp"
#include "engine/memory_plan.hpp"
#include "engine/text/json_text.hpp"
#include "engine/tokenizer_from_gguf.hpp"
#include "tools/kvpage/byte_text.hpp"
#include "tools/kvpage/failure.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

namespace kvpage::cli {

void throw_load_failure(const engine::LoadError& error) { throw Failure(kExitLoad, error.to_string()); }

void throw_run_failure(const engine::RunError& error) {
  const bool full = error.kind == engine::RunError::Kind::kContextFull || error.kind == engine::RunError::Kind::kPoolFull;
  throw Failure(full ? kExitDoesNotFit : kExitRun, error.message);
}

TextModel open_text_model(const std::string& path) {
  engine::Gguf file = loaded(engine::Gguf::open(path));
  engine::Tokenizer tokenizer = loaded(engine::read_tokenizer(file));
  return {std::move(file), std::move(tokenizer)};
}

OpenModel open_model(const std::string& path) {
  engine::Gguf file = loaded(engine::Gguf::open(path));
  engine::ModelSpec spec = loaded(engine::read_model_spec(file));
  engine::Tokenizer tokenizer = loaded(engine::read_tokenizer(file));
  return {{std::move(file), std::move(tokenizer)}, std::move(spec)};
}

namespace {

/// What would fit, of the options that were given: "a smaller --ctx (at most 512 fit) or ", or nothing.
std::string smaller_pool(const engine::PlannedModel& model, const engine::ModelConfig& config, std::int64_t available) {
  const char* option = config.pool_blocks > 0 ? "fewer --pool-blocks" : "a smaller --ctx";
  std::int64_t largest = 0;
  if (config.pool_blocks > 0) {
    const engine::MemoryPlan plan = engine::plan_memory(model, config);
    largest = (available - (plan.total_bytes() - plan.kv.pool_bytes)) / plan.kv.page_bytes;
  } else {
    largest = engine::largest_context_tokens(model, config, available);
  }
  return largest > 0 ? std::string(option) + " (at most " + std::to_string(largest) + " fit) or " : "";
}

/// Refuses what cannot fit before the first large allocation.
void require_memory(const engine::PlannedModel& model, const engine::ModelConfig& config, std::int64_t host_tier_bytes,
                    std::int64_t available) {
  const engine::MemoryPlan plan = engine::plan_memory(model, config);
  const std::int64_t tier = engine::host_tier_memory_bytes(host_tier_bytes, plan.kv.page_bytes, config.block_size);
  if (plan.total_bytes() + tier <= available) return;
  std::string parts = "weights " + byte_text(plan.weight_bytes) + ", KV pool " + byte_text(plan.kv.pool_bytes) + ", workspace " +
                      byte_text(plan.workspace_bytes);
  std::string advice = smaller_pool(model, config, available - tier);
  if (tier > 0) parts += ", host tier " + byte_text(tier);
  if (tier > 0 && plan.total_bytes() < available) advice += "a smaller --host-tier or ";
  std::string types;
  for (const std::string& name : engine::kv_type_names()) types += (types.empty() ? "" : ", ") + name;
  throw Failure(kExitDoesNotFit, "does not fit: " + byte_text(plan.total_bytes() + tier) + " needed (" + parts + "), " +
                                     byte_text(available) + " available; use " + advice + "a narrower --kv-type (" + types +
                                     "); see kvpage plan");
}

/// Errors: Failure with kExitDoesNotFit that names the first tensor that no fast kernel runs; before anything is packed.
void require_fast_kernels(const engine::Gguf& file, const engine::ModelSpec& spec, const engine::ModelConfig& config) {
  const auto fast = engine::require_fast_kernels(file, loaded(engine::plan_kernel_uses(file, spec, config)));
  if (!fast) throw Failure(kExitDoesNotFit, fast.error().to_string());
}

/// A tensor that the packed kernels cannot run is right but slow: say so, once.
void warn_of_slow_kernels(const std::vector<engine::KernelUse>& uses) {
  std::int64_t slow_bytes = 0;
  std::int64_t all_bytes = 0;
  const engine::KernelUse* first = nullptr;
  for (const engine::KernelUse& use : uses) {
    all_bytes += use.bytes;
    if (use.slow_reason.empty()) continue;
    if (first == nullptr) first = &use;
    slow_bytes += use.bytes;
  }
  if (first == nullptr) return;
  std::fprintf(stderr, "warning: %.0f %% of the weights run on slow kernels, first %s: %s; see kvpage inspect --kernels\n",
               100.0 * static_cast<double>(slow_bytes) / static_cast<double>(all_bytes), first->tensor.c_str(), first->slow_reason.c_str());
}

}  // namespace

engine::ModelConfig model_config(const ModelOptions& options, std::int64_t pool_tokens, std::int64_t step_tokens) {
  engine::ModelConfig config;
  config.kernels = options.kernels;
  config.kv_type = options.kv_type;
  config.pool_tokens = pool_tokens;
  config.pool_blocks = options.pool_blocks;
  config.step_tokens = step_tokens;
  config.num_threads = options.threads;
  config.isa = options.isa;
  config.strict_kernels = options.strict_kernels;
  config.packed_cache = options.packed_cache;
  return config;
}

void require_context(std::int64_t context_tokens, const engine::ModelSpec& spec) {
  if (context_tokens <= spec.context_limit_tokens) return;
  throw Failure(kExitDoesNotFit, "a context of " + std::to_string(context_tokens) + " tokens is more than the model's limit of " +
                                     std::to_string(spec.context_limit_tokens) + "; ask for less");
}

std::int64_t context_of(std::int64_t context_tokens, const engine::ModelSpec& spec) {
  require_context(context_tokens, spec);
  return context_tokens > 0 ? context_tokens : std::min(spec.context_limit_tokens, engine::kDefaultContextTokens);
}

std::string context_advice(std::int64_t context_tokens, const engine::ModelSpec& spec) {
  const std::int64_t limit = spec.context_limit_tokens;
  if (context_tokens >= limit) return "that is the limit of the model itself; use a shorter text";
  return "use a larger --ctx (the model's limit is " + std::to_string(limit) + ") or a shorter text";
}

void require_in_vocabulary(std::span<const TokenId> ids, std::int64_t vocab_size, const std::string& what) {
  const auto outside = std::find_if(ids.begin(), ids.end(), [&](TokenId id) { return id >= vocab_size; });
  if (outside == ids.end()) return;
  throw Failure(kExitUsage, what + " must hold ids in [0, " + std::to_string(vocab_size) + "), not " + std::to_string(*outside) +
                                " (element " + std::to_string(outside - ids.begin()) + "): the vocabulary of the model ends there");
}

LoadedModel load_model(const ModelOptions& options, std::int64_t pool_tokens, std::int64_t step_tokens, std::int64_t logit_rows) {
  const auto start = std::chrono::steady_clock::now();
  LoadedModel m = load_model(open_model(options.model), options, pool_tokens, step_tokens, logit_rows);
  m.load_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return m;
}

LoadedModel load_model(OpenModel open, const ModelOptions& options, std::int64_t pool_tokens, std::int64_t step_tokens,
                       std::int64_t logit_rows) {
  const auto start = std::chrono::steady_clock::now();
  const engine::ModelSpec& spec = open.spec;
  auto file = std::make_unique<engine::Gguf>(std::move(open.text.file));
  engine::Tokenizer tokenizer = std::move(open.text.tokenizer);
  auto end_tokens = loaded(engine::read_end_tokens(*file, tokenizer));
  require_context(pool_tokens, spec);
  auto progress = std::make_unique<ProgressBar>(options.progress);
  engine::ModelConfig config = model_config(options, pool_tokens, step_tokens);
  config.logit_rows = logit_rows;
  config.progress = [bar = progress.get()](const engine::Progress& report) { bar->show(report); };
  config.note = [bar = progress.get()](std::string_view text) {
    bar->clear();
    std::fprintf(stderr, "note: %.*s\n", static_cast<int>(text.size()), text.data());
  };
  if (auto complete = engine::check_tensors(*file, spec); !complete) throw_load_failure(complete.error());
  if (options.strict_kernels) require_fast_kernels(*file, spec, config);
  require_memory({*file, spec, tokenizer}, config, options.host_tier_bytes, engine::available_memory_bytes());
  auto model = loaded(engine::load_language_model(*file, spec, config));
  const std::vector<engine::KernelUse> uses = model->kernel_uses();
  if (std::none_of(uses.begin(), uses.end(), [](const engine::KernelUse& use) { return use.in_file; })) file.reset();
  warn_of_slow_kernels(uses);
  const double load_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return {std::move(file), std::move(tokenizer), std::move(end_tokens), std::move(progress), std::move(model), load_s};
}

LoadedModel load_model_for(ModelOptions options, std::int64_t num_seqs, std::int64_t context_tokens, std::int64_t step_tokens) {
  {
    const TextModel text = open_text_model(options.model);
    const engine::ModelSpec spec = loaded(engine::read_model_spec(text.file));
    require_context(context_tokens, spec);
    engine::ModelConfig config = model_config(options, context_tokens, step_tokens);
    config.num_seqs = num_seqs;
    options.pool_blocks = engine::plan_kv_pool(spec, config).num_blocks + num_seqs * kMaxCacheGroups;
  }
  return load_model(options, context_tokens, step_tokens, num_seqs);
}

std::optional<engine::ChatTemplate> compile_chat_template(const engine::Gguf& file) {
  const auto source = loaded(engine::read_chat_template(file));
  if (!source) return std::nullopt;
  auto compiled = engine::ChatTemplate::compile(*source);
  if (!compiled) throw Failure(kExitLoad, file.path() + ": " + compiled.error().text());
  return std::move(*compiled);
}

std::vector<TokenId> encode_or_warn(const engine::Tokenizer& tokenizer, std::string_view text, const engine::EncodeOptions& options) {
  if (const std::string wrong = engine::invalid_utf8(text); !wrong.empty()) {
    std::fprintf(stderr, "warning: %s; the text is used as it is\n", wrong.c_str());
  }
  engine::EncodeScratch scratch;
  std::vector<TokenId> ids;
  tokenizer.encode(text, options, scratch, ids);
  if (scratch.dropped_bytes > 0) {
    std::fprintf(stderr, "warning: %lld bytes of the text have no token in this vocabulary; the model does not see them\n",
                 static_cast<long long>(scratch.dropped_bytes));
  }
  return ids;
}

void warn_of_bytes(const engine::Tokenizer& tokenizer, std::string_view text) {
  static_cast<void>(encode_or_warn(tokenizer, text, {}));
}

std::string special_text(const engine::Tokenizer& tokenizer, std::optional<TokenId> id) {
  return id ? std::string(tokenizer.token_bytes(*id, true)) : std::string();
}

std::tm local_time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

std::string read_text(const std::optional<std::string>& path) {
  if (!path || *path == "-") return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  std::ifstream stream(*path, std::ios::binary);
  std::ostringstream text;
  if (stream) text << stream.rdbuf();
  if (!stream || std::filesystem::is_directory(*path)) throw Failure(kExitLoad, *path + ": cannot be read");
  return text.str();
}

}  // namespace kvpage::cli
