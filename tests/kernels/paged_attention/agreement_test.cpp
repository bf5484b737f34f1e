/// \file The reference against dense attention without pages, and the fast kernel against the reference.
#include "attention_problem.hpp"

#include "support/catch.hpp"

#include <kvpage/kernels/paged_attention/cpu.hpp>
#include <kvpage/kv/hadamard.hpp>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

using namespace kvpage_test;

namespace {

constexpr std::int64_t kHeadDims[] = {32, 64, 80, 96, 128, 256};
constexpr std::int64_t kBlockSizes[] = {8, 16, 32, 64};

AttentionProblem make_problem(std::int64_t num_q_heads, std::int64_t num_kv_heads, std::int64_t head_dim, unsigned seed) {
  AttentionProblem problem;
  problem.num_q_heads = num_q_heads;
  problem.num_kv_heads = num_kv_heads;
  problem.head_dim = head_dim;
  problem.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  problem.seqs = {{1, 1, 0}, {70, 3, 67}, {33, 5, 28}, {290, 1, 289}};
  fill_random(problem, seed);
  return problem;
}

/// What double rounding to float leaves between two double computations.
ErrorBound rounding_bound(const AttentionProblem& problem) {
  const ErrorBound bound = error_bound(problem);
  return {bound.out * 1e-3 + 1e-6, 1e-6};
}

/// Keys as a model makes them: a small part, and the bias turned to the key's position.
void add_turned_bias(AttentionProblem& problem) {
  for (std::size_t s = 0; s < problem.kv.size(); ++s) {
    for (std::int64_t at = 0; at < problem.seqs[s].kv_len * 128; at += 2) {
      const std::int64_t pair = at % 64 / 2;
      const std::int64_t head = at % 128 / 64 * 64;
      const std::int64_t x = problem.adjacent_pairs ? 2 * pair : pair;
      const std::int64_t y = problem.adjacent_pairs ? 2 * pair + 1 : pair + 32;
      const double angle = static_cast<double>(at / 128) * static_cast<double>(problem.inv_freq[static_cast<std::size_t>(pair)]);
      const double bx = static_cast<double>(problem.key_bias[static_cast<std::size_t>(head + x)]);
      const double by = static_cast<double>(problem.key_bias[static_cast<std::size_t>(head + y)]);
      float* key = problem.kv[s].k.data() + at / 128 * 128 + head;
      key[x] += static_cast<float>(bx * std::cos(angle) - by * std::sin(angle));
      key[y] += static_cast<float>(bx * std::sin(angle) + by * std::cos(angle));
    }
  }
}

}  // namespace

TEST_CASE("paged_attention.reference.equals_dense_attention_on_what_the_storage_keeps", "[paged_attention]") {
  const AttentionProblem problem = make_problem(6, 2, 64, 1);
  for (const Storage& storage : storages()) {
    const AttentionResult dense = dense_attention(problem, storage.round_trip(problem));
    for (const std::int64_t block_size : kBlockSizes) {
      INFO(storage.format << " " << storage.layout << ", block size " << block_size);
      require_near(storage.run(problem, {.reference = true, .block_size = block_size}), dense, rounding_bound(problem));
    }
  }
}

TEST_CASE("paged_attention.reference.windows_and_soft_caps_equal_dense_attention", "[paged_attention]") {
  for (const std::int64_t window : {0, 1, 8, 33}) {
    for (const float softcap : {0.0f, 0.5f, 30.0f}) {
      AttentionProblem problem = make_problem(4, 2, 32, 2);
      problem.window = window;
      problem.softcap = softcap;
      INFO("window " << window << ", soft cap " << softcap);
      const Storage& exact = storage("f32");
      const AttentionResult dense = dense_attention(problem, exact_kv(problem));
      require_near(exact.run(problem, {.reference = true}), dense, rounding_bound(problem));
      require_near(exact.run(problem, {}), dense, error_bound(problem));
      require_near(storage("int8").run(problem, {}), storage("int8").run(problem, {.reference = true}), error_bound(problem));
    }
  }
}

TEST_CASE("paged_attention.cpu.equals_the_reference_for_every_storage_and_block_size", "[paged_attention]") {
  for (const std::int64_t head_dim : kHeadDims) {
    const AttentionProblem problem = make_problem(6, 2, head_dim, 3);
    for (const Storage& storage : storages()) {
      const AttentionResult reference = storage.run(problem, {.reference = true});
      for (const std::int64_t block_size : kBlockSizes) {
        INFO(storage.format << " " << storage.layout << ", head_dim " << head_dim << ", block size " << block_size);
        require_near(storage.run(problem, {.block_size = block_size, .num_threads = 2}), reference, error_bound(problem));
      }
    }
  }
}

TEST_CASE("paged_attention.cpu.equals_the_reference_for_every_group", "[paged_attention]") {
  for (const std::int64_t group : {1, 2, 3, 4, 5, 6, 7, 8, 13, 16, 71}) {
    const AttentionProblem problem = make_problem(2 * group, 2, 64, 4);
    for (const char* format : {"f16", "int8", "int4-k4"}) {
      INFO(format << ", group " << group);
      require_near(storage(format).run(problem, {}), storage(format).run(problem, {.reference = true}), error_bound(problem));
    }
  }
}

TEST_CASE("paged_attention.cpu.coded_weights_of_8_bit_values_keep_14_bits", "[paged_attention]") {
  AttentionProblem problem = make_problem(6, 2, 64, 7);
  problem.seqs = {{64, 3, 61}, {1000, 20, 980}};
  fill_random(problem, 8);
  // Rotated, a query of one dim is +-x / 8 everywhere: its code is exact, so that the weights' codes are all that is left.
  for (std::size_t i = 0; i < problem.q.size(); ++i) problem.q[i] = i % 64 == i / 64 % 64 ? 8.0f : 0.0f;
  double largest = 0;
  for (const auto& kv : problem.kv) {
    for (const float v : kv.v) largest = std::max(largest, std::fabs(static_cast<double>(v)));
  }
  const Storage& int8 = storage("int8");
  // 64 roundings of half a unit in 14 bits, of either sign: 8 times as much as one.
  require_near(int8.run(problem, {}), int8.run(problem, {.reference = true}), {8 * 0x1p-15 * largest, 1e-5});
}

TEST_CASE("paged_attention.cpu.long_contexts_equal_the_reference", "[paged_attention]") {
  AttentionProblem problem = make_problem(3, 1, 64, 5);
  problem.seqs = {{2100, 2, 2098}, {257, 1, 256}, {256, 30, 226}};
  fill_random(problem, 6);
  for (const char* format : {"f32", "f16", "bf16", "fp8", "int8", "int4", "int4-k4"}) {
    INFO(format);
    require_near(storage(format).run(problem, {.num_threads = 2}), storage(format).run(problem, {.reference = true}), error_bound(problem));
  }
}

TEST_CASE("paged_attention.key_bias.large_biases_cost_no_accuracy", "[paged_attention]") {
  for (const bool adjacent : {false, true}) {
    AttentionProblem problem = make_problem(4, 2, 64, 7);
    problem.seqs = {{100, 100, 0}, {300, 2, 298}};
    fill_random(problem, 8);
    problem.adjacent_pairs = adjacent;
    problem.key_bias.assign(128, 0.0f);
    // In slowly turning dims, as in the models that have such biases: a page's middle stands for all of it.
    const std::size_t y = adjacent ? 57 : 60;
    problem.key_bias[28] = 200.0f, problem.key_bias[y] = -150.0f, problem.key_bias[64 + (adjacent ? 63 : 31)] = 80.0f;
    if (adjacent) std::swap(problem.key_bias[28], problem.key_bias[56]);
    for (int i = 0; i < 32; ++i) problem.inv_freq.push_back(std::pow(10000.0f, static_cast<float>(-i) / 32.0f));
    add_turned_bias(problem);
    problem.scale = 0.002f;  // scores of a few units, as a trained model has
    const AttentionResult dense = dense_attention(problem, exact_kv(problem));
    for (const char* format : {"int8", "fp8"}) {
      for (const float key_scale : {1.0f, 0.75f}) {
        const AttentionResult with_bias = storage(format).run(problem, {.key_scale = key_scale});
        require_near(with_bias, storage(format).run(problem, {.reference = true, .key_scale = key_scale}), error_bound(problem));
        AttentionProblem blind = problem;
        blind.key_bias.clear();
        const AttentionResult without = storage(format).run(blind, {.key_scale = key_scale});
        double error = 0.0;
        double blind_error = 0.0;
        for (std::size_t i = 0; i < dense.lse.size(); ++i) {
          error += static_cast<double>(std::fabs(with_bias.lse[i] - dense.lse[i]));
          blind_error += static_cast<double>(std::fabs(without.lse[i] - dense.lse[i]));
        }
        INFO(format << ", key scale " << key_scale << ": error " << error << ", without the bias " << blind_error);
        CHECK(error < 0.2 * blind_error);
      }
    }
  }
}

TEST_CASE("paged_attention.agreement.queries_of_any_length_are_rotated_as_keys_are", "[paged_attention]") {
  std::mt19937 rng{3};
  for (std::int64_t n = 1; n <= 130; ++n) {
    std::vector<float> whole(400);  // more than a block of the next size would touch
    for (float& x : whole) x = std::uniform_real_distribution<float>{-1.0f, 1.0f}(rng);
    std::vector<float> right = whole, got = whole;
    kvpage::hadamard_rotate(right.data(), n);
    kvpage::generic::detail::rotate_row<false>(got.data(), n);
    for (std::size_t d = 0; d < whole.size(); ++d) REQUIRE(std::fabs(got[d] - right[d]) <= 1e-5f);
    kvpage::generic::detail::rotate_row<true>(got.data(), n);
    for (std::size_t d = 0; d < whole.size(); ++d) REQUIRE(std::fabs(got[d] - whole[d]) <= 1e-5f);
  }
}
