/// \file The oracle of embedding: one row after the other.
#pragma once

#include <kvpage/kernels/embedding/args.hpp>

#include <vector>

KVPAGE_BEGIN_NAMESPACE
namespace reference {

/// embedding of token ids that `validate_tables` accepts.
template <Element Out = float>
Status embedding(const BasicEmbeddingArgs<Out>& args, TablesChecked) {
  if (const Status status = validate(args); !status.ok()) return status;
  std::vector<float> row(static_cast<std::size_t>(args.num_tokens > 0 ? args.table.cols() : 0));
  for (std::int64_t i = 0; i < args.num_tokens; ++i) {
    Stored<Out>* out = args.out + i * args.out_stride;
    args.table.decode_row(args.tokens[i], row.data());
    for (std::int64_t c = 0; c < args.table.cols(); ++c) out[c] = ElementCodec<Out>::encode(row[static_cast<std::size_t>(c)] * args.scale);
  }
  return {};
}

/// Obvious loops; the contract is EmbeddingArgs.
template <Element Out = float>
Status embedding(const BasicEmbeddingArgs<Out>& args) {
  if (const Status status = validate_launch(args); !status.ok()) return status;
  return embedding(args, kTablesChecked);
}

}  // namespace reference
KVPAGE_END_NAMESPACE
