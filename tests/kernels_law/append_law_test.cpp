/// \file The law for keys and values: what the pages of a sequence hold does not depend on who else wrote, in which cuts and where.
#include "kernels_law/law.hpp"

#include <kvpage/base/aligned_bytes.hpp>
#include <kvpage/kernels/append_kv/cpu.hpp>
#include <kvpage/kv/kv_formats.hpp>
#include <kvpage/kv/kv_pool.hpp>

#include <cstring>

namespace kvpage_test {
namespace {

using kvpage::BlockId;
using kvpage::Cpu;
using kvpage::KVSlot;

constexpr std::int64_t kNumSeqs = 10;
constexpr std::int64_t kMaxTokens = 40;
constexpr std::int64_t kHeadDims[] = {8, 32, 40, 64, 80};
constexpr std::int64_t kBlockSizes[] = {8, 16, 32};

/// A row is a sequence: its tokens, and all bytes of its pages, poison included.
template <kvpage::KVStorage KV>
struct AppendProblem {
  kvpage::KVPoolShape shape;
  std::vector<std::int64_t> lengths;    // [kNumSeqs]
  std::vector<float> k, v;              // [kNumSeqs, kMaxTokens, num_kv_heads, head_dim]
  std::vector<float> bias, rotation;    // of a key bias, or empty

  explicit AppendProblem(LawRandom& random)
      : shape{2, random.between(1, 3), random.pick(kHeadDims), random.pick(kBlockSizes), 0},
        k(random.floats(kNumSeqs * kMaxTokens * row())), v(random.floats(kNumSeqs * kMaxTokens * row())) {
    for (std::int64_t s = 0; s < kNumSeqs; ++s) lengths.push_back(random.between(1, kMaxTokens));
    if (!random.one_in(3)) return;
    const std::vector<float> inv_freq = random.floats(shape.head_dim / 2, 1e-4f, 1.0f);
    bias = random.floats(row(), -50.0f, 50.0f);
    rotation.resize(static_cast<std::size_t>(2 * shape.head_dim));
    kvpage::fill_page_rotation(inv_freq.data(), shape.head_dim, 2, rotation.data());
  }
  std::int64_t row() const { return shape.num_kv_heads * shape.head_dim; }
  std::int64_t num_rows() const { return kNumSeqs; }
  std::string description() const {
    return std::to_string(shape.num_kv_heads) + " heads of " + std::to_string(shape.head_dim) + ", blocks of " +
           std::to_string(shape.block_size) + (bias.empty() ? "" : ", key bias");
  }

  /// One run: pages in any order of a poisoned pool, launches with some more tokens of every sequence and rows that are not written.
  struct Run {
    const AppendProblem& problem;
    kvpage::AlignedBytes memory;
    std::vector<std::int64_t> blocks, first_block, written;  // page ids; per sequence
    kvpage::KVPool<KV> pool;

    Run(const AppendProblem& p, std::span<const std::int64_t> rows, LawRandom& how)
        : problem(p), memory(kvpage::pool_bytes<KV>(shape(rows)), std::byte{0xFF}),
          blocks(how.some_of(shape(rows).num_blocks, shape(rows).num_blocks)), written(rows.size(), 0), pool(shape(rows), memory.span()) {
      for (std::int64_t next = 0; const std::int64_t s : rows) {
        first_block.push_back(next);
        next += kvpage::ceil_div(problem.lengths[static_cast<std::size_t>(s)], problem.shape.block_size);
      }
    }
    kvpage::KVPoolShape shape(std::span<const std::int64_t> rows) const {
      kvpage::KVPoolShape with_blocks = problem.shape;
      with_blocks.num_blocks = 2;
      for (const std::int64_t s : rows) {
        with_blocks.num_blocks += kvpage::ceil_div(problem.lengths[static_cast<std::size_t>(s)], with_blocks.block_size);
      }
      return with_blocks;
    }

    /// Up to `most` more tokens of every sequence; true if there were any.
    bool launch(Cpu& cpu, std::span<const std::int64_t> rows, std::int64_t most, LawRandom& how) {
      std::vector<KVSlot> slots;
      std::vector<std::int64_t> positions, sources;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::int64_t count = std::min(how.between(0, most), problem.lengths[static_cast<std::size_t>(rows[i])] - written[i]);
        for (std::int64_t position = written[i]; position < written[i] + count; ++position) {
          const std::int64_t block = blocks[static_cast<std::size_t>(first_block[i] + position / problem.shape.block_size)];
          const bool skipped = how.one_in(8);  // a row that only asks; its token comes again behind it
          if (skipped) slots.push_back(kvpage::kNoSlot), positions.push_back(position), sources.push_back(rows[i] * kMaxTokens);
          slots.push_back({BlockId{static_cast<std::uint32_t>(block)}, static_cast<std::uint32_t>(position % problem.shape.block_size)});
          positions.push_back(position), sources.push_back(rows[i] * kMaxTokens + position);
        }
        written[i] += count;
      }
      PlacedRows keys(problem.k, problem.row(), sources, how), values(problem.v, problem.row(), sources, how);
      kvpage::AppendKvArgs<KV> args;
      args.view = pool.view(1);
      args.k = keys.data(), args.v = values.data();
      args.k_stride = keys.stride(), args.v_stride = values.stride();
      args.slots = slots.data(), args.positions = positions.data();
      args.num_tokens = std::ssize(slots);
      if (!problem.bias.empty()) args.key_bias = {problem.bias.data(), problem.rotation.data(), 2, problem.shape.head_dim, false};
      REQUIRE(kvpage::append_kv(cpu, args).ok());
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if (written[i] < problem.lengths[static_cast<std::size_t>(rows[i])]) return true;
      }
      return false;
    }

    RowBytes pages(std::size_t i, std::int64_t length) const {
      RowBytes all;
      for (std::int64_t b = 0; b < kvpage::ceil_div(length, problem.shape.block_size); ++b) {
        const auto page = pool.page(BlockId{static_cast<std::uint32_t>(blocks[static_cast<std::size_t>(first_block[i] + b)])});
        all.insert(all.end(), page.begin(), page.end());
      }
      return all;
    }
  };

  std::vector<RowBytes> run(Cpu& cpu, std::span<const std::int64_t> rows, LawRandom& how) const {
    Run run(*this, rows, how);
    const std::int64_t most = how.between(1, kMaxTokens);
    while (run.launch(cpu, rows, most, how)) {
    }
    std::vector<RowBytes> all;
    for (std::size_t i = 0; i < rows.size(); ++i) all.push_back(run.pages(i, lengths[static_cast<std::size_t>(rows[i])]));
    return all;
  }
};

void append_law(std::int64_t num_pairs) {
  kvpage::for_each_type(kvpage::KVFormats{}, [&]<class Format>() {
    require_law("append_kv " + std::string(Format::kName), num_pairs,
                [](LawRandom& random) { return AppendProblem<kvpage::CpuKV<Format>>(random); });
  });
}

}  // namespace

TEST_CASE("bug.B37.law_of_append_kv_in_every_format", "[kernels_law]") { append_law(kPairsPerChange); }
TEST_CASE("bug.B37.many_pairs_of_append_kv", "[kernels_law][night]") { append_law(kPairsPerNight); }

}  // namespace kvpage_test
