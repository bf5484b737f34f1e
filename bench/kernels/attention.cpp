/// \file Paged attention of every KV format: decode in bytes of KV per second beside reads of memory, prefill beside the
/// ceiling of float multiply-adds, shared prompts.
#include "attention_case.hpp"

#include "engine/backend/ceilings.hpp"

namespace kvpage_bench {
namespace {

using kvpage::engine::Ceilings;

template <class Format>
void decode(Cpu& cpu, const char* name, const AttentionShape& shape, double ceiling) {
  AttentionCase<CpuKV<Format>> problem(cpu, shape);
  const double rate = problem.kv_bytes() / problem.seconds(7);
  std::printf("{\"figure\": \"kernels.attention_%s.%s\", \"value\": %.4g, \"unit\": \"B/s\", \"against\": \"memory reads\", "
              "\"against_value\": %.4g, \"ratio\": %.3f}\n",
              name, std::string(Format::kName).c_str(), rate, ceiling, rate / ceiling);
}

template <class Format>
void prefill(Cpu& cpu, const char* name, const AttentionShape& shape, double ceiling) {
  AttentionCase<CpuKV<Format>> problem(cpu, shape);
  const double keys_per_row = static_cast<double>(shape.kv_len) - static_cast<double>(shape.q_count - 1) / 2.0;
  const double pairs = static_cast<double>(shape.q_count) * keys_per_row;
  const double macs = 2.0 * pairs * static_cast<double>(shape.num_layers * shape.num_seqs * shape.num_q_heads * shape.head_dim);
  const double rate = macs / problem.seconds(5);
  std::printf("{\"figure\": \"kernels.attention_%s.%s\", \"value\": %.4g, \"unit\": \"MAC/s\", \"against\": \"float multiply-adds\", "
              "\"against_value\": %.4g, \"ratio\": %.3f}\n",
              name, std::string(Format::kName).c_str(), rate, ceiling, rate / ceiling);
}

/// Decode behind a common prompt: pages that all sequences share, beside a page of its own for each.
template <class Format>
void cascade(Cpu& cpu, const char* name, AttentionShape shape) {
  AttentionCase<CpuKV<Format>> shared(cpu, shape);
  shape.shared_len = 0;
  AttentionCase<CpuKV<Format>> separate(cpu, shape);
  const double seconds = shared.seconds(7);
  const double separate_seconds = separate.seconds(7);
  std::printf("{\"figure\": \"kernels.attention_%s.%s\", \"value\": %.4g, \"unit\": \"s\", \"against\": \"separate pages\", "
              "\"against_value\": %.4g, \"ratio\": %.3f}\n",
              name, std::string(Format::kName).c_str(), seconds, separate_seconds, separate_seconds / seconds);
}

}  // namespace
}  // namespace kvpage_bench

int main(int argc, char** argv) {
  using namespace kvpage_bench;
  CpuConfig config;
  config.num_threads = argc > 1 ? std::atoi(argv[1]) : 0;
  if (argc > 2) config.isa = parse_isa(argv[2]);
  Cpu cpu(config);
  Ceilings measured(cpu);
  const double reads = measured.memory_bytes();
  const double floats = measured.fma_macs();
  for_each_type(KVFormats{}, [&]<class Format>() {
    decode<Format>(cpu, "decode1x4096", {30, 9, 3, 64, 1, 4096, 1}, reads);
    decode<Format>(cpu, "decode16x192", {30, 9, 3, 64, 16, 192, 1}, reads);
    decode<Format>(cpu, "decode16x1024", {30, 9, 3, 64, 16, 1024, 1}, reads);
    decode<Format>(cpu, "decode1x4096_group7", {24, 14, 2, 64, 1, 4096, 1}, reads);
    decode<Format>(cpu, "decode1x4096_dim256", {18, 4, 1, 256, 1, 4096, 1}, reads);
    cascade<Format>(cpu, "cascade16x1024", {10, 9, 3, 64, 16, 1024 + 64, 1, 1024});
    prefill<Format>(cpu, "prefill512", {6, 9, 3, 64, 1, 512, 512}, floats);
    prefill<Format>(cpu, "prefill512_depth4096", {2, 9, 3, 64, 1, 4608, 512}, floats);
  });
}
