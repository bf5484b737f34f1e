/// \file An attention problem in plain arrays, its dense answer in double, and every way to store its keys and values.
#pragma once

#include <kvpage/exec/isa.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvpage_test {

/// One sequence: `q_count` query rows at positions first_pos, first_pos + 1, ... over `kv_len` keys.
struct SeqSpec {
  std::int64_t kv_len = 0;
  std::int64_t q_count = 0;
  std::int64_t first_pos = 0;
  std::int64_t prefix_of = -1;     ///< an earlier sequence with the same first keys and values; -1 = none
  std::int64_t prefix_tokens = 0;  ///< how many
};

/// Keys and values of a sequence are [kv_len, num_kv_heads, head_dim].
template <class T>
struct DenseKV {
  std::vector<T> k, v;
};

struct AttentionProblem {
  std::int64_t num_q_heads = 1, num_kv_heads = 1, head_dim = 64;
  float scale = 0.125f;
  std::int64_t window = 0;
  float softcap = 0.0f;
  std::vector<SeqSpec> seqs;
  std::vector<float> q;             // [num_tokens, num_q_heads, head_dim]
  std::vector<DenseKV<float>> kv;   // [seqs]
  std::vector<float> key_bias;      // [num_kv_heads, head_dim], or empty
  std::vector<float> inv_freq;      // [head_dim / 2], with a key bias
  bool adjacent_pairs = false;

  std::int64_t num_tokens() const;
  std::int64_t kv_row() const { return num_kv_heads * head_dim; }
};

struct AttentionResult {
  std::vector<float> out;  // [num_tokens, num_q_heads, head_dim]
  std::vector<float> lse;  // [num_tokens, num_q_heads]
  friend bool operator==(const AttentionResult&, const AttentionResult&) = default;
};

/// Normal numbers for everything the problem's sizes ask for; common prefixes are equal.
void fill_random(AttentionProblem& problem, unsigned seed);

/// Softmax over all visible keys, in double, with no pages, no blocks and no running maximum.
AttentionResult dense_attention(const AttentionProblem& problem, const std::vector<DenseKV<double>>& kv);
std::vector<DenseKV<double>> exact_kv(const AttentionProblem& problem);

/// How a launch is made: as one call, without a look into tables, or with a plan that was made for another layer.
enum class Entry { kWhole, kTablesChecked, kPlanned };

struct RunOptions {
  bool reference = false;
  Entry entry = Entry::kWhole;
  std::int64_t block_size = 16;
  int num_threads = 1;
  std::optional<kvpage::Isa> isa{};
  unsigned permutation = 0;         ///< seed of the order of pages
  std::int64_t chunk = 0;           ///< tokens per sequence and launch, 0 = all; keys are appended chunk by chunk
  bool free_behind_window = false;  ///< pages that no row can see any more leave the table and are poisoned
  std::int64_t scratch_missing = 0; ///< bytes fewer than needed
  float key_scale = 1.0f;           ///< the view's
  bool share_pages = false;         ///< whole pages of a common prefix are the same pages
  std::int64_t* cascade_tokens = nullptr;  ///< set to the last launch's
};

/// One storage type, compiled once for all tests.
struct Storage {
  std::string format, layout;
  AttentionResult (*run)(const AttentionProblem&, const RunOptions&);
  std::vector<DenseKV<double>> (*round_trip)(const AttentionProblem&);  ///< what the storage makes of keys and values
};

/// Every format in every layout.
const std::vector<Storage>& storages();
const Storage& storage(const std::string& format, const std::string& layout = "key-transposed");

/// Largest allowed distance of the fast kernel from the reference, from the problem's operands.
struct ErrorBound {
  double out, lse;
};
ErrorBound error_bound(const AttentionProblem& problem);
/// Requires every number of `a` to be within the bound of `b`.
void require_near(const AttentionResult& a, const AttentionResult& b, const ErrorBound& bound);

}  // namespace kvpage_test
