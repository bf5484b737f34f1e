/// \file EmbeddingArgs: looking up the rows of a table of token embeddings.
#pragma once

#include <kvpage/base/tables_checked.hpp>
#include <kvpage/base/types.hpp>
#include <kvpage/precision/element.hpp>

#include <cmath>
#include <concepts>

KVPAGE_BEGIN_NAMESPACE

/// A matrix whose rows can be decoded one by one: a WeightView, or a matrix packed for another kernel (tied embeddings).
template <class M>
concept RowDecodable = requires(const M& matrix, float* out) {
  { matrix.rows } -> std::convertible_to<std::int64_t>;
  { matrix.cols } -> std::convertible_to<std::int64_t>;
  matrix.decode_row(std::int64_t{0}, out);
};

/// Non-owning reference to any RowDecodable matrix [rows, cols]. Requires: the matrix object outlives it.
class EmbeddingTable {
 public:
  EmbeddingTable() = default;
  template <RowDecodable M>
  EmbeddingTable(const M& matrix) noexcept  // NOLINT: a table is a reference to a matrix
      : matrix_(&matrix), rows_(matrix.rows), cols_(matrix.cols), decode_([](const void* self, std::int64_t row, float* out) {
          static_cast<const M*>(self)->decode_row(row, out);
        }) {}
  template <RowDecodable M>
  EmbeddingTable(const M&&) = delete;

  std::int64_t rows() const noexcept { return rows_; }
  std::int64_t cols() const noexcept { return cols_; }
  /// Writes row `row` to `out` [cols].
  void decode_row(std::int64_t row, float* out) const { decode_(matrix_, row, out); }

 private:
  const void* matrix_ = nullptr;
  std::int64_t rows_ = 0;
  std::int64_t cols_ = 0;
  void (*decode_)(const void* self, std::int64_t row, float* out) = nullptr;
};

/// out[i] = scale * table[tokens[i]]
template <Element Out>
struct BasicEmbeddingArgs {
  EmbeddingTable table{};           // [vocab_size, hidden]
  const TokenId* tokens = nullptr;  // [num_tokens]
  std::int64_t num_tokens = 0;
  float scale = 1.0f;  ///< finite, not 0
  Stored<Out>* out = nullptr;   // [num_tokens, hidden]
  std::int64_t out_stride = 0;  ///< elements from one row to the next
};
using EmbeddingArgs = BasicEmbeddingArgs<float>;

/// The error of the numbers and pointers of a launch, or ok. Cost: O(1).
template <Element Out>
Status validate(const BasicEmbeddingArgs<Out>& args) noexcept {
  const auto invalid = [](const char* message, std::int64_t value, std::int64_t limit) {
    return Status(StatusCode::kInvalidArgument, message, value, limit);
  };
  if (args.num_tokens < 0) return invalid("embedding: num_tokens is negative", args.num_tokens, 0);
  if (args.num_tokens == 0) return {};
  if (args.table.rows() <= 0 || args.table.cols() <= 0) return invalid("embedding: the table is empty", args.table.rows(), 1);
  if (args.tokens == nullptr || args.out == nullptr) return invalid("embedding: tokens or out is null", 0, 1);
  if (args.out_stride < args.table.cols()) {
    return invalid("embedding: out_stride is smaller than a row", args.out_stride, args.table.cols());
  }
  if (!std::isfinite(args.scale) || args.scale == 0.0f) return invalid("embedding: scale must be finite and not 0", 0, 0);
  return {};
}

/// The error of token ids [num_tokens] that a vocabulary of so many lacks, or ok. Cost: O(num_tokens).
inline Status validate_token_ids(const TokenId* tokens, std::int64_t num_tokens, std::int64_t vocab_size) noexcept {
  for (std::int64_t i = 0; i < num_tokens; ++i) {
    if (std::int64_t{tokens[i]} >= vocab_size) {
      return {StatusCode::kInvalidArgument, "embedding: a token id is outside the vocabulary", tokens[i], vocab_size};
    }
  }
  return {};
}

/// The error of the token ids of a launch that `validate` accepts, or ok. Cost: O(num_tokens).
template <Element Out>
Status validate_tables(const BasicEmbeddingArgs<Out>& args) noexcept {
  return validate_token_ids(args.tokens, args.num_tokens, args.table.rows());
}

KVPAGE_END_NAMESPACE
