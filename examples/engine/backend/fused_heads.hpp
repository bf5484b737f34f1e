/// \file FusedHeads: project_heads as one launch, whose workers finish the heads that they complete.
#pragma once

#include "engine/backend/heads.hpp"

#include <kvpage/kernels/append_kv/cpu.hpp>
#include <kvpage/kernels/gemm/grouped_cpu.hpp>
#include <kvpage/kernels/rms_norm/cpu.hpp>
#include <kvpage/kernels/rope/cpu.hpp>

namespace kvpage::engine {

/// An epilogue of gemm_groups: norm, rotation and append of a head's rows right after their matmul, in the same worker: what the separate
/// kernels would give, bit for bit.
template <class Weight, KVStorage KV>
class FusedHeads {
 public:
  FusedHeads(const Cpu& cpu, const HeadsArgs<Weight, KV>& args)
      : args_(args), norm_(select_rms_norm_rows(cpu)), rotate_(cpu, args.ropes[kQueries].pairing), append_(cpu) {}

  /// The error of what is done to heads, or ok.
  Status validate() const {
    for (const RmsNormArgs& norm : args_.norms) {
      if (const Status status = kvpage::validate(norm); !status.ok()) return status;
    }
    for (const RopeArgs& rope : args_.ropes) {
      if (const Status status = kvpage::validate(rope); !status.ok()) return status;
    }
    return kvpage::validate(args_.append);
  }

  void operator()(const GemmGroup& group) const {
    if (group.matrix != kValues) {
      if (args_.norms[group.matrix].num_rows > 0) normalise(group);
      rotate(group);
    }
    if (group.matrix != kQueries) append(group);
  }

 private:
  /// The rows of norms are heads; those of a group are one head of several tokens.
  void normalise(const GemmGroup& group) const {
    const PartTimer timer(args_.times != nullptr ? &args_.times->norm_ns : nullptr);
    RmsNormArgs norm = args_.norms[group.matrix];
    norm.x_stride = norm.out_stride = args_.outputs[group.matrix].out_stride;
    norm.x += group.first_col;
    norm.out += group.first_col;
    norm_(norm, group.first_row, group.first_row + group.num_rows);
  }

  void rotate(const GemmGroup& group) const {
    const PartTimer timer(args_.times != nullptr ? &args_.times->rope_ns : nullptr);
    RopeArgs rope = args_.ropes[group.matrix];
    rope.x += group.first_col;
    rope.num_heads = 1;
    rotate_(rope, group.first_row, group.first_row + group.num_rows);
  }

  void append(const GemmGroup& group) const {
    const PartTimer timer(args_.times != nullptr ? &args_.times->append_ns : nullptr);
    const std::int64_t head = group.first_col / group.num_cols, end = group.first_row + group.num_rows;
    if (group.matrix == kKeys) append_.keys(args_.append, head, group.first_row, end);
    else append_.values(args_.append, head, group.first_row, end);
  }

  const HeadsArgs<Weight, KV>& args_;
  RmsNormRows norm_;
  RopeTokens rotate_;
  AppendHead<KV> append_;
};

}  // namespace kvpage::engine
