/// \file paged_attention on the CPU backend: rows and heads over the workers.
#pragma once

#include <kvpage/exec/cpu.hpp>
#include <kvpage/kernels/paged_attention/reference.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Bytes of PagedAttentionArgs::scratch. They do not depend on the lengths or the number of sequences.
template <KVStorage KV>
[[nodiscard]] std::int64_t paged_attention_scratch_bytes(const Cpu&, const KVDims&, std::int64_t /*num_q_heads*/) noexcept {
  return 0;
}

/// See PagedAttentionArgs. Threads: one launch at a time per Cpu.
template <KVStorage KV>
[[nodiscard]] Status paged_attention(Cpu& cpu, const PagedAttentionArgs<KV>& args) noexcept {
  if (const Status status = validate(args); !status.ok()) return status;
  if (args.num_tokens == 0) return {};
  for (std::int64_t s = 0; s < args.view.tables.num_seqs; ++s) {
    const AttentionSeq seq = args.seqs[s];
    cpu.parallel_for(seq.q_count * args.num_q_heads, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        reference::detail::attend_row(args, s, seq.q_begin + i / args.num_q_heads, i % args.num_q_heads);
      }
    });
  }
  return {};
}

KVPAGE_END_NAMESPACE
