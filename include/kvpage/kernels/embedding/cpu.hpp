/// \file Embedding on the CPU: rows spread over the workers.
#pragma once

#include <kvpage/exec/cpu.hpp>
#include <kvpage/kernels/embedding/args.hpp>

KVPAGE_BEGIN_NAMESPACE

/// embedding of token ids that `validate_tables` accepts.
inline Status embedding(Cpu& cpu, const EmbeddingArgs& args, TablesChecked) {
  if (const Status status = validate(args); !status.ok()) return status;
  cpu.parallel_for(args.num_tokens, 4, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      float* row = args.out + i * args.out_stride;
      args.table.decode_row(args.tokens[i], row);
      if (args.scale == 1.0f) continue;
      for (std::int64_t c = 0; c < args.table.cols(); ++c) row[c] *= args.scale;
    }
  });
  return {};
}

/// The contract is EmbeddingArgs. Errors: a bad shape, pointer or token id; then nothing is written.
inline Status embedding(Cpu& cpu, const EmbeddingArgs& args) {
  if (const Status status = validate_launch(args); !status.ok()) return status;
  return embedding(cpu, args, kTablesChecked);
}

KVPAGE_END_NAMESPACE
