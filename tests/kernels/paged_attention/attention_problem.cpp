/// \file Random problems, the dense answer, and the bound that their operands give.
#include "attention_problem.hpp"

#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace kvpage_test {

std::int64_t AttentionProblem::num_tokens() const {
  std::int64_t count = 0;
  for (const SeqSpec& seq : seqs) count += seq.q_count;
  return count;
}

void fill_random(AttentionProblem& problem, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  const auto fill = [&](std::vector<float>& values, std::int64_t count) {
    values.resize(static_cast<std::size_t>(count));
    for (float& x : values) x = normal(random);
  };
  fill(problem.q, problem.num_tokens() * problem.num_q_heads * problem.head_dim);
  problem.kv.resize(problem.seqs.size());
  for (std::size_t s = 0; s < problem.seqs.size(); ++s) {
    fill(problem.kv[s].k, problem.seqs[s].kv_len * problem.kv_row());
    fill(problem.kv[s].v, problem.seqs[s].kv_len * problem.kv_row());
    const SeqSpec& seq = problem.seqs[s];
    if (seq.prefix_of < 0) continue;
    const DenseKV<float>& other = problem.kv[static_cast<std::size_t>(seq.prefix_of)];
    std::copy_n(other.k.begin(), seq.prefix_tokens * problem.kv_row(), problem.kv[s].k.begin());
    std::copy_n(other.v.begin(), seq.prefix_tokens * problem.kv_row(), problem.kv[s].v.begin());
  }
}

std::vector<DenseKV<double>> exact_kv(const AttentionProblem& problem) {
  std::vector<DenseKV<double>> result;
  for (const DenseKV<float>& kv : problem.kv) result.push_back({{kv.k.begin(), kv.k.end()}, {kv.v.begin(), kv.v.end()}});
  return result;
}

namespace {
/// Scores of one row and head over keys [begin, end).
std::vector<double> dense_scores(const AttentionProblem& problem, const std::vector<double>& k, const float* q, std::int64_t kv_head,
                                 std::int64_t begin, std::int64_t end) {
  std::vector<double> scores;
  for (std::int64_t j = begin; j < end; ++j) {
    const double* key = k.data() + j * problem.kv_row() + kv_head * problem.head_dim;
    double dot = 0.0;
    for (std::int64_t d = 0; d < problem.head_dim; ++d) dot += static_cast<double>(q[d]) * key[d];
    dot *= static_cast<double>(problem.scale);
    if (problem.softcap > 0.0f) dot = static_cast<double>(problem.softcap) * std::tanh(dot / static_cast<double>(problem.softcap));
    scores.push_back(dot);
  }
  return scores;
}

void dense_row(const AttentionProblem& problem, const DenseKV<double>& kv, const SeqSpec& seq, std::int64_t i, std::int64_t row,
               std::int64_t head, AttentionResult& result) {
  const std::int64_t kv_head = head / (problem.num_q_heads / problem.num_kv_heads);
  const std::int64_t position = seq.first_pos + i;
  const std::int64_t end = std::max<std::int64_t>(0, std::min(seq.kv_len, position + 1));
  const std::int64_t begin = problem.window == 0 ? 0 : std::max<std::int64_t>(0, position - problem.window + 1);
  const std::int64_t at = row * problem.num_q_heads + head;
  const std::vector<double> scores = dense_scores(problem, kv.k, problem.q.data() + at * problem.head_dim, kv_head, begin, end);
  if (scores.empty()) return;
  const double max = *std::max_element(scores.begin(), scores.end());
  double sum = 0.0;
  for (const double s : scores) sum += std::exp(s - max);
  for (std::int64_t d = 0; d < problem.head_dim; ++d) {
    double total = 0.0;
    for (std::size_t j = 0; j < scores.size(); ++j) {
      const auto index = (begin + static_cast<std::int64_t>(j)) * problem.kv_row() + kv_head * problem.head_dim + d;
      total += std::exp(scores[j] - max) / sum * kv.v[static_cast<std::size_t>(index)];
    }
    result.out[static_cast<std::size_t>(at * problem.head_dim + d)] = static_cast<float>(total);
  }
  result.lse[static_cast<std::size_t>(at)] = static_cast<float>(max + std::log(sum));
}
}  // namespace

AttentionResult dense_attention(const AttentionProblem& problem, const std::vector<DenseKV<double>>& kv) {
  AttentionResult result;
  result.out.assign(problem.q.size(), 0.0f);
  result.lse.assign(static_cast<std::size_t>(problem.num_tokens() * problem.num_q_heads), -std::numeric_limits<float>::infinity());
  std::int64_t row = 0;
  for (std::size_t s = 0; s < problem.seqs.size(); ++s) {
    for (std::int64_t i = 0; i < problem.seqs[s].q_count; ++i, ++row) {
      for (std::int64_t head = 0; head < problem.num_q_heads; ++head) dense_row(problem, kv[s], problem.seqs[s], i, row, head, result);
    }
  }
  return result;
}

const Storage& storage(const std::string& format, const std::string& layout) {
  for (const Storage& candidate : storages()) {
    if (candidate.format == format && candidate.layout == layout) return candidate;
  }
  FAIL("no storage " << format << " " << layout);
  return storages().front();
}

namespace {
/// The largest Euclidean norm of the head_dim-long vectors in `values`, plus that of `extra`.
double largest_norm(const std::vector<float>& values, std::int64_t head_dim) {
  double largest = 0.0;
  for (std::size_t begin = 0; begin < values.size(); begin += static_cast<std::size_t>(head_dim)) {
    double sum = 0.0;
    for (std::size_t d = begin; d < begin + static_cast<std::size_t>(head_dim); ++d) sum += std::pow(static_cast<double>(values[d]), 2);
    largest = std::max(largest, sum);
  }
  return std::sqrt(largest);
}
}  // namespace

ErrorBound error_bound(const AttentionProblem& problem) {
  const double q = largest_norm(problem.q, problem.head_dim);
  double k = 0.0;
  double v = 0.0;
  double num_keys = 1.0;
  for (std::size_t s = 0; s < problem.kv.size(); ++s) {
    k = std::max(k, largest_norm(problem.kv[s].k, problem.head_dim));
    v = std::max(v, largest_norm(problem.kv[s].v, problem.head_dim));
    num_keys = std::max(num_keys, static_cast<double>(problem.seqs[s].kv_len));
  }
  if (!problem.key_bias.empty()) k += largest_norm(problem.key_bias, problem.head_dim);
  const auto dims = static_cast<double>(problem.head_dim);
  // A score: head_dim roundings, the query's 15-bit code (half a unit of its largest entry per dim), and the exponential.
  const double score = static_cast<double>(problem.scale) * q * k * (2.0 * dims * 0x1p-24 + std::sqrt(dims) * 0.5 / 16256.0) + 0x1p-20;
  return {v * (2.0 * score + (num_keys + 64.0) * 0x1p-23), score + (num_keys + 64.0) * 0x1p-23};
}

void require_near(const AttentionResult& a, const AttentionResult& b, const ErrorBound& bound) {
  REQUIRE(a.out.size() == b.out.size());
  REQUIRE(a.lse.size() == b.lse.size());
  double out = 0.0;
  double lse = 0.0;
  for (std::size_t i = 0; i < a.out.size(); ++i) {
    if (!(std::isfinite(a.out[i]) && std::isfinite(b.out[i]))) FAIL("out[" << i << "]: " << a.out[i] << " and " << b.out[i]);
    out = std::max(out, static_cast<double>(std::fabs(a.out[i] - b.out[i])));
  }
  for (std::size_t i = 0; i < a.lse.size(); ++i) {
    if (a.lse[i] == b.lse[i]) continue;
    if (!(std::isfinite(a.lse[i]) && std::isfinite(b.lse[i]))) FAIL("lse[" << i << "]: " << a.lse[i] << " and " << b.lse[i]);
    lse = std::max(lse, static_cast<double>(std::fabs(a.lse[i] - b.lse[i])) / (1.0 + static_cast<double>(std::fabs(b.lse[i]))));
  }
  CHECK(out <= bound.out);
  CHECK(lse <= bound.lse);
}

}  // namespace kvpage_test
