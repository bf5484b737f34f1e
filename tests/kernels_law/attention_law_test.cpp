/// \file The law for paged attention: single queries and chunks of them, in every storage, with every order of pages and cut.
#include "kernels/paged_attention/attention_problem.hpp"
#include "kernels_law/law.hpp"

#include <kvpage/kernels/paged_attention/attention_state.hpp>

#include <array>
#include <cmath>

namespace kvpage_test {
namespace {

constexpr std::int64_t kNumSeqs = 12;
constexpr std::array<std::int64_t, 4> kBlockSizes{8, 16, 32, 64};

/// A row is a sequence: its queries over its keys and values.
struct AttentionLaw {
  std::string format;
  AttentionProblem all;  ///< of kNumSeqs sequences
  std::vector<std::int64_t> first_token;

  AttentionLaw(const std::string& name, bool chunks, LawRandom& random) : format(name) {
    constexpr std::array<std::int64_t, 4> kGroups{1, 3, 5, 7}, kHeadDims{32, 40, 64, 80};
    all.num_kv_heads = random.between(1, 2);
    all.num_q_heads = all.num_kv_heads * random.pick(kGroups);
    all.head_dim = random.pick(kHeadDims);
    all.scale = 1.0f / std::sqrt(static_cast<float>(all.head_dim));
    if (random.one_in(3)) all.window = random.between(1, 70);
    if (random.one_in(3)) all.softcap = 20.0f;
    for (std::int64_t s = 0; s < kNumSeqs; ++s) add_sequence(chunks, random);
    all.q = random.floats(all.num_tokens() * all.num_q_heads * all.head_dim);
    if (random.one_in(3)) {
      all.key_bias = random.floats(all.kv_row(), -50.0f, 50.0f);
      all.inv_freq = random.floats(all.head_dim / 2, 1e-4f, 1.0f);
    }
  }

  /// Mostly short; now and then beside the borders of steps and splits.
  void add_sequence(bool chunks, LawRandom& random) {
    constexpr std::array<std::int64_t, 13> kBorders{1, 31, 32, 33, 63, 64, 65, 255, 256, 257, 300, 513, 777};
    const std::int64_t kv_len = random.one_in(12) ? random.pick(kBorders) : random.between(1, 45);
    const std::int64_t q_count = chunks ? std::min(kv_len, random.between(2, 12)) : 1;
    first_token.push_back(all.num_tokens());
    all.seqs.push_back({kv_len, q_count, kv_len - q_count});
    all.kv.push_back({random.floats(kv_len * all.kv_row()), random.floats(kv_len * all.kv_row())});
  }
  std::int64_t num_rows() const { return kNumSeqs; }
  std::string description() const {
    return format + ", " + std::to_string(all.num_q_heads) + " / " + std::to_string(all.num_kv_heads) + " heads of " +
           std::to_string(all.head_dim) + ", window " + std::to_string(all.window);
  }

  AttentionProblem of(std::span<const std::int64_t> rows) const {
    AttentionProblem problem = all;
    problem.seqs.clear(), problem.kv.clear(), problem.q.clear();
    const std::int64_t token = all.num_q_heads * all.head_dim;
    for (const std::int64_t row : rows) {
      const auto s = static_cast<std::size_t>(row);
      problem.seqs.push_back(all.seqs[s]);
      problem.kv.push_back(all.kv[s]);
      const auto q = all.q.begin() + first_token[s] * token;
      problem.q.insert(problem.q.end(), q, q + all.seqs[s].q_count * token);
    }
    return problem;
  }

  std::vector<RowBytes> run(const kvpage::Cpu& cpu, std::span<const std::int64_t> rows, LawRandom& how) const {
    constexpr std::array<std::int64_t, 6> kChunks{0, 0, 0, 1, 16, 100};
    constexpr std::array<const char*, 4> kLayouts{"key-transposed", "key-transposed", "token-major", "head-major"};
    const AttentionProblem problem = of(rows);
    const RunOptions options{.block_size = how.pick(kBlockSizes),
                             .num_threads = cpu.num_threads(),
                             .isa = cpu.isa(),
                             .permutation = static_cast<unsigned>(how.between(0, 1 << 30)),
                             .chunk = how.one_in(4) ? how.between(1, 12) : how.pick(kChunks),
                             .free_behind_window = problem.window > 0 && how.one_in(2)};
    const AttentionResult result = storage(format, how.pick(kLayouts)).run(problem, options);
    std::vector<RowBytes> bytes;
    for (std::int64_t token = 0; const std::int64_t row : rows) {
      const std::int64_t count = all.seqs[static_cast<std::size_t>(row)].q_count, heads = all.num_q_heads;
      bytes.push_back(bytes_of(result.out.data() + token * heads * all.head_dim, count * heads * all.head_dim));
      const RowBytes lse = bytes_of(result.lse.data() + token * heads, count * heads);
      bytes.back().insert(bytes.back().end(), lse.begin(), lse.end());
      token += count;
    }
    return bytes;
  }
};

void attention_law(bool chunks, std::int64_t num_pairs) {
  std::size_t num_formats = 0;
  for (const Storage& each : storages()) {
    if (each.layout != "key-transposed") continue;  // the layouts of a format share their pairs
    require_law(std::string("paged_attention ") + (chunks ? "of chunks " : "of decode ") + each.format, num_pairs,
                [&](LawRandom& random) { return AttentionLaw(each.format, chunks, random); });
    ++num_formats;
  }
  REQUIRE(num_formats == 7);
}

}  // namespace

TEST_CASE("bug.B30.joining_an_empty_part_changes_no_bit", "[kernels_law]") {
  const std::vector<float> out{0.1f, -3.0f, 1e-30f};
  const float never = -std::numeric_limits<float>::infinity();
  std::vector<float> whole = out, none(3, 0.0f);
  const auto require_whole = [&](const kvpage::AttentionState<float>& state) {
    REQUIRE((state.max == -60000.0f && state.sum == 1.7f));
    REQUIRE(std::equal(out.begin(), out.end(), state.out));
  };
  kvpage::AttentionState<float> full{-60000.0f, 1.7f, whole.data()}, empty{never, 0.0f, none.data()};
  kvpage::merge_attention(full, empty, 3);
  require_whole(full);
  kvpage::merge_attention(empty, full, 3);
  require_whole(empty);
  std::vector<float> zeros(3, 0.0f);
  kvpage::AttentionState<float> first{never, 0.0f, zeros.data()}, second{never, 0.0f, zeros.data()};
  kvpage::merge_attention(first, second, 3);
  kvpage::normalize_attention(first, 3);
  REQUIRE((first.empty() && first.lse() == never && zeros == std::vector<float>(3, 0.0f)));
}

TEST_CASE("kernels_law.joining_writes_the_dims_of_the_head_and_no_more", "[kernels_law]") {
  const float never = -std::numeric_limits<float>::infinity();
  for (const float sum : {0.0f, 2.0f}) {  // into an empty state, and into one that has something
    std::vector<float> total_out{1.0f, 2.0f, 3.0f, -7.0f}, part_out{4.0f, 5.0f, 6.0f, 99.0f};
    kvpage::AttentionState<float> total{sum == 0.0f ? never : 0.0f, sum, total_out.data()};
    kvpage::merge_attention(total, {0.0f, 1.0f, part_out.data()}, 3);
    CHECK((total.max == 0.0f && total.sum == sum + 1.0f));
    CHECK(total_out == (sum == 0.0f ? std::vector<float>{4.0f, 5.0f, 6.0f, -7.0f} : std::vector<float>{5.0f, 7.0f, 9.0f, -7.0f}));
    kvpage::normalize_attention(total, 3);
    CHECK(total_out[3] == -7.0f);
  }
}

TEST_CASE("bug.B37.law_of_decode_attention", "[kernels_law]") { attention_law(false, kPairsPerChange); }
TEST_CASE("bug.B37.law_of_chunk_attention", "[kernels_law]") { attention_law(true, kPairsPerChange); }
TEST_CASE("bug.B37.many_pairs_of_decode_attention", "[kernels_law][night]") { attention_law(false, kPairsPerNight); }
TEST_CASE("bug.B37.many_pairs_of_chunk_attention", "[kernels_law][night]") { attention_law(true, kPairsPerNight); }

}  // namespace kvpage_test
