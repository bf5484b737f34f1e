#include "engine/tokenizer_from_gguf.hpp"
#include "tools/kvpage/failure.hpp"
#include "tools/kvpage/loaded_model.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace kvpage::cli {
namespace {

void print_file(const engine::Gguf& file) {
  std::printf("file             %s\n", file.path().c_str());
  std::printf("size             %" PRId64 " bytes in %zu part(s), GGUF version %u\n", file.file_bytes(), file.num_parts(), file.version());
}

void print_sizes(const engine::ModelSpec& spec) {
  std::printf("architecture     %s\n", spec.traits.name);
  std::printf("name             %s\n", spec.name.c_str());
  std::printf("layers           %" PRId64 "\n", spec.num_layers);
  std::printf("hidden size      %" PRId64 ", feed-forward %" PRId64 "\n", spec.hidden_size, spec.ffn_size);
  std::printf("heads            %" PRId64 " query, %" PRId64 " key/value, %" PRId64 " dims each\n", spec.num_q_heads, spec.num_kv_heads,
              spec.head_dim);
  std::printf("vocabulary       %" PRId64 " tokens\n", spec.vocab_size);
  std::printf("context limit    %" PRId64 " tokens\n", spec.context_limit_tokens);
  if (spec.window_tokens > 0) {
    std::int64_t windowed = 0;
    for (std::int64_t i = 0; i < spec.num_layers; ++i) windowed += spec.layer_window_tokens(i) > 0;
    std::printf("sliding window   %" PRId64 " tokens in %" PRId64 " of %" PRId64 " layers\n", spec.window_tokens, windowed,
                spec.num_layers);
  }
}

void print_tensor_types(const engine::Gguf& file) {
  struct Total {
    std::int64_t tensors = 0, bytes = 0;
  };
  std::map<std::string_view, Total> totals;
  for (const engine::GgufTensor& tensor : file.tensors()) {
    Total& total = totals[tensor.format->name];
    ++total.tensors;
    total.bytes += static_cast<std::int64_t>(tensor.data.size());
  }
  std::printf("tensors          %zu\n", file.tensors().size());
  for (const auto& [name, total] : totals) {
    std::printf("  %-8.*s       %" PRId64 " tensors, %" PRId64 " bytes\n", static_cast<int>(name.size()), name.data(), total.tensors,
                total.bytes);
  }
}

void print_kv(const engine::ModelSpec& spec) {
  std::printf("KV cache bytes per token (pages of %" PRId64 " tokens)\n", engine::kDefaultBlockSize);
  for (const engine::KvTypeBytes& type : engine::kv_bytes_per_token(spec, engine::kDefaultBlockSize)) {
    std::printf("  %-12s   %" PRId64 "\n", type.name.c_str(), type.bytes_per_token);
  }
}

void print_text(const engine::Gguf& file) {
  const auto kind = loaded(file.get<std::string_view>("tokenizer.ggml.model"));
  const auto pre = loaded(file.find<std::string_view>("tokenizer.ggml.pre"));
  const engine::Tokenizer tokenizer = loaded(engine::read_tokenizer(file));
  std::printf("tokenizer        %s%s%s, BOS %s\n", std::string(kind).c_str(), pre ? " / " : "", std::string(pre.value_or("")).c_str(),
              tokenizer.add_bos() ? "added" : "not added");
  std::string ends;
  for (const TokenId id : loaded(engine::read_end_tokens(file, tokenizer))) {
    ends += (ends.empty() ? "" : ", ") + std::to_string(id) + " " + special_text(tokenizer, id);
  }
  std::printf("end tokens       %s\n", ends.empty() ? "none" : ends.c_str());
  const auto source = loaded(engine::read_chat_template(file));
  if (!source) {
    std::printf("chat template    none\n");
    return;
  }
  const auto compiled = engine::ChatTemplate::compile(*source);
  std::printf("chat template    %zu bytes, %s\n", source->size(), compiled ? "supported" : compiled.error().text().c_str());
}

/// From the file's metadata alone: nothing is packed or run, so that the instruction set need not be one of this machine.
void print_kernels(const InspectOptions& options) {
  const engine::Gguf file = loaded(engine::Gguf::open(options.file));
  const engine::ModelSpec spec = loaded(engine::read_model_spec(file));
  if (auto complete = engine::check_tensors(file, spec); !complete) throw_load_failure(complete.error());
  engine::ModelConfig config;
  config.kernels = options.backend;
  config.isa = options.isa;
  const std::vector<engine::KernelUse> uses = loaded(engine::plan_kernel_uses(file, spec, config));
  std::printf("%-32s %-16s %-30s %-12s %14s\n", "tensor", "operation", "kernel", "isa", "bytes");
  std::int64_t bytes = 0, slow_bytes = 0;
  for (const engine::KernelUse& use : uses) {
    std::printf("%-32s %-16s %-30s %-12s %14" PRId64 "%s%s\n", use.tensor.c_str(), use.operation.c_str(), use.kernel.c_str(),
                use.isa.empty() ? "-" : use.isa.c_str(), use.bytes, use.slow_reason.empty() ? "" : "  slow: ", use.slow_reason.c_str());
    bytes += use.bytes;
    if (!use.slow_reason.empty()) slow_bytes += use.bytes;
  }
  const auto slow = std::count_if(uses.begin(), uses.end(), [](const engine::KernelUse& use) { return !use.slow_reason.empty(); });
  const double share = static_cast<double>(slow_bytes) / static_cast<double>(bytes);
  std::printf("slow operations  %td, with %.1f %% of the bytes\n", slow, 100.0 * share);
}

}  // namespace

int inspect(const InspectOptions& options) {
  if (options.kernels) {
    print_kernels(options);
    return kExitOk;
  }
  const engine::Gguf file = loaded(engine::Gguf::open(options.file));
  const engine::ModelSpec spec = loaded(engine::read_model_spec(file));
  print_file(file);
  print_sizes(spec);
  print_tensor_types(file);
  print_kv(spec);
  print_text(file);
  return kExitOk;
}

}  // namespace kvpage::cli
