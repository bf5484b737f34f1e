// append_kv of every KV format: bytes of new keys and values stored per second, beside memcpy of the same rows by the same workers.
// A benchmark per figure; arguments: those of Google Benchmark (--benchmark_filter=REGEX, ...), then the number of threads.
#include <kvpage/base/aligned_bytes.hpp>
#include <kvpage/kernels/append_kv/cpu.hpp>
#include <kvpage/kv/kv_formats.hpp>
#include <kvpage/kv/kv_pool.hpp>

#include "ceiling_benchmark.hpp"
#include "engine/backend/ceilings.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

namespace kvpage_bench {
namespace {

using namespace kvpage;
using kvpage::engine::best_seconds;

constexpr KVDims kDims{.num_kv_heads = 8, .head_dim = 64, .block_size = 32};
constexpr std::int64_t kTokens = 4096;  // 16 MB of rows: more than one core's caches hold, as a prefill leaves them
constexpr std::int64_t kRow = kDims.num_kv_heads * kDims.head_dim;
constexpr int kRounds = 15;

/// Rows of keys and values as the projections leave them, and distinct slots: the blocks in random order, each filled from its start.
struct Rows {
  std::vector<float> k, v;
  std::vector<KVSlot> slots;

  Rows() : k(static_cast<std::size_t>(kTokens * kRow)), v(k.size()) {
    std::mt19937 rng{5};
    std::normal_distribution<float> normal;
    for (float& x : k) x = normal(rng);
    for (float& x : v) x = normal(rng);
    std::vector<std::uint32_t> blocks(static_cast<std::size_t>(kTokens / kDims.block_size));
    for (std::size_t b = 0; b < blocks.size(); ++b) blocks[b] = static_cast<std::uint32_t>(b);
    std::shuffle(blocks.begin(), blocks.end(), rng);
    for (const std::uint32_t block : blocks) {
      for (std::uint32_t t = 0; t < kDims.block_size; ++t) slots.push_back({BlockId{block}, t});
    }
  }
  [[nodiscard]] double bytes() const { return static_cast<double>((k.size() + v.size()) * sizeof(float)); }
};


double memcpy_rate(Cpu& cpu, const Rows& rows) {
  std::vector<float> k(rows.k.size()), v(rows.v.size());
  return rows.bytes() / best_seconds(kRounds, [&] {
           cpu.parallel_for(kTokens, [&](std::int64_t begin, std::int64_t end, int) {
             const auto bytes = static_cast<std::size_t>((end - begin) * kRow) * sizeof(float);
             std::memcpy(k.data() + begin * kRow, rows.k.data() + begin * kRow, bytes);
             std::memcpy(v.data() + begin * kRow, rows.v.data() + begin * kRow, bytes);
           });
         });
}

template <class Format>
void append(benchmark::State& state, Cpu& cpu, const Rows& rows, double ceiling) {
  using KV = CpuKV<Format>;
  const KVPoolShape shape{1, kDims.num_kv_heads, kDims.head_dim, kDims.block_size, kTokens / kDims.block_size};
  const AlignedBytes memory(pool_bytes<KV>(shape), std::byte{0});
  const KVPool<KV> pool{shape, memory.span()};
  const AppendKvArgs<KV> args{.view = pool.view(0), .k = rows.k.data(), .v = rows.v.data(), .k_stride = kRow, .v_stride = kRow,
                              .slots = rows.slots.data(), .num_tokens = kTokens};
  Status status;
  run_beside_ceiling(state, rows.bytes(), ceiling, "B/s beside memcpy", [&] { status = append_kv(cpu, args); });
  if (!status.ok()) state.SkipWithError(status.message());
}

template <class Format>
void add(const std::string& name, Cpu& cpu, const Rows& rows, double ceiling) {
  benchmark::RegisterBenchmark(name.c_str(), [&cpu, &rows, ceiling](benchmark::State& state) { append<Format>(state, cpu, rows, ceiling); })
      ->UseRealTime();
}

}  // namespace
}  // namespace kvpage_bench

int main(int argc, char** argv) {
  using namespace kvpage_bench;
  benchmark::Initialize(&argc, argv);
  CpuConfig config;
  config.num_threads = argc > 1 ? std::atoi(argv[1]) : 0;
  Cpu cpu(config);
  const Rows rows;
  const double ceiling = memcpy_rate(cpu, rows);
  add<DefaultKVFormat>("cache.append_kv", cpu, rows, ceiling);
  for_each_type(KVFormats{}, [&]<class Format>() { add<Format>("cache.append_kv." + std::string(Format::kName), cpu, rows, ceiling); });
  benchmark::RunSpecifiedBenchmarks();
}
