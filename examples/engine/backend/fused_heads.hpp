/// \file FusedHeads: project_heads as one launch, whose workers finish the heads that they complete.
#pragma once

#include "engine/backend/heads.hpp"

#include <kvpage/kernels/append_kv/cpu.hpp>
#include <kvpage/kernels/gemm/cpu_heads.hpp>
#include <kvpage/kernels/rms_norm/cpu.hpp>
#include <kvpage/kernels/rope/cpu.hpp>

namespace kvpage::engine {

/// An epilogue of gemm_heads: norm, rotation and append of a head's rows right after their matmul, in the same worker: what the separate
/// kernels would give, bit for bit.
template <class Weight, class Input, KVStorage KV>
class FusedHeads {
 public:
  FusedHeads(const Cpu& cpu, const HeadsArgs<Weight, Input, KV>& args)
      : args_(args), norm_(cpu), rotate_(cpu, args.ropes[kQueries].pairing), append_(cpu) {}

  /// The error of what is done to heads, or ok. Tables were checked.
  Status validate() const {
    for (const RmsNormArgs& norm : args_.norms) {
      if (const Status status = kvpage::validate(norm); !status.ok()) return status;
    }
    for (const RopeArgs& rope : args_.ropes) {
      if (const Status status = kvpage::validate(rope); !status.ok()) return status;
    }
    return kvpage::validate(args_.append);
  }

  void operator()(const GemmHead& head) const {
    if (head.matrix != kValues) {
      if (args_.norms[head.matrix].num_rows > 0) normalise(head);
      rotate(head);
    }
    if (head.matrix != kQueries) append(head);
  }

 private:
  /// The rows of norms are heads; here one head of several tokens.
  void normalise(const GemmHead& head) const {
    const PartTimer timer(args_.times != nullptr ? &args_.times->norm_ns : nullptr);
    RmsNormArgs norm = args_.norms[head.matrix];
    norm.x_stride = norm.out_stride = args_.products[head.matrix].out_stride;
    norm.x += head.first_col;
    norm.out += head.first_col;
    norm_(norm, head.first_row, head.first_row + head.num_rows);
  }

  void rotate(const GemmHead& head) const {
    const PartTimer timer(args_.times != nullptr ? &args_.times->rope_ns : nullptr);
    RopeArgs rope = args_.ropes[head.matrix];
    rope.x += head.first_col;
    rope.num_heads = 1;
    rotate_(rope, head.first_row, head.first_row + head.num_rows);
  }

  void append(const GemmHead& head) const {
    const PartTimer timer(args_.times != nullptr ? &args_.times->append_ns : nullptr);
    const std::int64_t kv_head = head.first_col / head.num_cols, end = head.first_row + head.num_rows;
    if (head.matrix == kKeys) append_.keys(args_.append, kv_head, head.first_row, end);
    else append_.values(args_.append, kv_head, head.first_row, end);
  }

  const HeadsArgs<Weight, Input, KV>& args_;
  RmsNormRows norm_;
  RopeTokens rotate_;
  AppendHead<KV> append_;
};

}  // namespace kvpage::engine
