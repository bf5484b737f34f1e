/// \file The oracle of embedding: one row after the other.
#pragma once

#include <kvpage/kernels/embedding/args.hpp>

KVPAGE_BEGIN_NAMESPACE
namespace reference {

/// embedding of token ids that `validate_tables` accepts.
inline Status embedding(const EmbeddingArgs& args, TablesChecked) {
  if (const Status status = validate(args); !status.ok()) return status;
  for (std::int64_t i = 0; i < args.num_tokens; ++i) {
    float* row = args.out + i * args.out_stride;
    args.table.decode_row(args.tokens[i], row);
    for (std::int64_t c = 0; c < args.table.cols(); ++c) row[c] *= args.scale;
  }
  return {};
}

/// Obvious loops; the contract is EmbeddingArgs.
inline Status embedding(const EmbeddingArgs& args) {
  if (const Status status = validate_launch(args); !status.ok()) return status;
  return embedding(args, kTablesChecked);
}

}  // namespace reference
KVPAGE_END_NAMESPACE
