/// \file Paged attention of every KV format: decode in bytes of KV per second beside a plain read of memory, prefill, shared prompts.
#include "attention_case.hpp"

namespace kvpage_bench {
namespace {

/// Bytes per second at which the workers of `cpu` read `size` bytes, best of a few rounds.
double read_rate(Cpu& cpu, std::int64_t size) {
  const AlignedBytes memory(size);
  std::fill(memory.span().begin(), memory.span().end(), std::byte{1});
  const auto* words = reinterpret_cast<const std::uint64_t*>(memory.bytes.get());
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(cpu.num_threads()) * 8);
  double best = 0.0;
  for (int round = 0; round < 5; ++round) {
    const auto start = std::chrono::steady_clock::now();
    cpu.parallel_for(size / 8, 1 << 15, [&](std::int64_t begin, std::int64_t end, int worker) {
      std::uint64_t sum[8] = {};
      for (std::int64_t i = begin; i + 8 <= end; i += 8) {
        for (int j = 0; j < 8; ++j) sum[j] += words[i + j];
      }
      sums[static_cast<std::size_t>(worker) * 8] += std::accumulate(sum, sum + 8, std::uint64_t{0});
    });
    best = std::max(best, static_cast<double>(size) / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return sums[0] == 0 ? 0.0 : best;
}

template <class Format>
void decode(Cpu& cpu, const char* name, const AttentionShape& shape, double ceiling) {
  AttentionCase<CpuKV<Format>> problem(cpu, shape);
  const double rate = problem.kv_bytes() / problem.seconds(7);
  std::printf("{\"figure\": \"kernels.attention_%s.%s\", \"value\": %.4g, \"unit\": \"B/s\", \"against\": \"memory read\", "
              "\"against_value\": %.4g, \"ratio\": %.3f}\n",
              name, std::string(Format::kName).c_str(), rate, ceiling, rate / ceiling);
}

template <class Format>
void prefill(Cpu& cpu, const char* name, const AttentionShape& shape) {
  AttentionCase<CpuKV<Format>> problem(cpu, shape);
  const double keys_per_row = static_cast<double>(shape.kv_len) - static_cast<double>(shape.q_count - 1) / 2.0;
  const double pairs = static_cast<double>(shape.q_count) * keys_per_row;
  const double macs = 2.0 * pairs * static_cast<double>(shape.num_layers * shape.num_seqs * shape.num_q_heads * shape.head_dim);
  std::printf("{\"figure\": \"kernels.attention_%s.%s\", \"value\": %.4g, \"unit\": \"MAC/s\"}\n", name,
              std::string(Format::kName).c_str(), macs / problem.seconds(5));
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
              name, std::string(Format::kName).c_str(), seconds, separate_seconds, seconds / separate_seconds);
}

}  // namespace
}  // namespace kvpage_bench

int main(int argc, char** argv) {
  using namespace kvpage_bench;
  CpuConfig config;
  config.num_threads = argc > 1 ? std::atoi(argv[1]) : 0;
  if (argc > 2) config.isa = parse_isa(argv[2]);
  Cpu cpu(config);
  const double ceiling = read_rate(cpu, 256 << 20);
  for_each_type(KVFormats{}, [&]<class Format>() {
    decode<Format>(cpu, "decode1x4096", {30, 9, 3, 64, 1, 4096, 1}, ceiling);
    decode<Format>(cpu, "decode16x1024", {30, 9, 3, 64, 16, 1024, 1}, ceiling);
    decode<Format>(cpu, "decode1x4096_group7", {24, 14, 2, 64, 1, 4096, 1}, ceiling);
    decode<Format>(cpu, "decode1x4096_dim256", {18, 4, 1, 256, 1, 4096, 1}, ceiling);
    cascade<Format>(cpu, "cascade16x1024", {10, 9, 3, 64, 16, 1024 + 64, 1, 1024});
    prefill<Format>(cpu, "prefill512", {6, 9, 3, 64, 1, 512, 512});
    prefill<Format>(cpu, "prefill512_depth4096", {2, 9, 3, 64, 1, 4608, 512});
  });
}
