/// \file Launcher: the operations of a step, one after the other; what a backend does not fuse is made of its basic operations.
#pragma once

#include "engine/backend/backend_traits.hpp"
#include "engine/backend/heads.hpp"

#include <kvpage/base/assert.hpp>
#include <kvpage/kernels/gemm/cpu_row_argmax.hpp>

#include <span>
#include <vector>

namespace kvpage::engine {

/// Runs operations until one fails: the first error stays, and nothing is launched after it. So the forward pass is a list of operations,
/// and who asked for it looks at `status()` once.
template <Backend B>
class Launcher {
 public:
  using Weight = typename B::Weight;
  using Input = typename B::Input;

  explicit Launcher(B& backend) noexcept : backend_(backend) {}

  const Status& status() const noexcept { return status_; }

  void embedding(const LookupArgs<Weight>& args) {
    run([&] { return backend_.embedding(args); });
  }
  void rms_norm(const RmsNormArgs& args) {
    run([&] { return backend_.rms_norm(args); });
  }
  void soft_cap(const SoftCapArgs& args) {
    run([&] { return backend_.soft_cap(args); });
  }
  void matmul(const MatmulArgs<Weight, Input>& args) {
    run([&] { return backend_.matmul(args); });
  }
  void prepare(const RowsArgs& args, Input& input) {
    run([&] { return backend_.prepare(args, input); });
  }
  template <KVStorage KV>
  void copy_blocks(const CopyBlocksArgs<KV>& args) {
    run([&] { return backend_.copy_blocks(args); });
  }

  /// What launches of a step with one block table and window share, decided once: plain bytes. A backend without this operation decides
  /// in each launch.
  template <KVStorage KV>
  void plan_attention(const PagedAttentionArgs<KV>& args, std::vector<std::byte>& plan) {
    if constexpr (requires { backend_.plan_attention(args, plan); }) run([&] { return backend_.plan_attention(args, plan); });
  }
  /// Requires: `plan` is of this step, block table and window.
  template <KVStorage KV>
  void paged_attention(const PagedAttentionArgs<KV>& args, std::span<const std::byte> plan) {
    if constexpr (requires { backend_.paged_attention(args, plan); }) {
      run([&] { return backend_.paged_attention(args, plan); });
    } else {
      run([&] { return backend_.paged_attention(args); });
    }
  }

  /// Cosines and sines of a step's positions for `rope`. A backend without this operation computes them where it needs them.
  static constexpr bool kHasRopeTables = requires(B& backend, const RopeTableArgs& args) { backend.rope_table(args); };
  void rope_table(const RopeTableArgs& args) {
    if constexpr (kHasRopeTables) run([&] { return backend_.rope_table(args); });
  }

  /// The rows of rms_norm as the input of the next matrices. Requires: args.out is not null unless all of them multiply codes.
  void prepare_normed(const RmsNormArgs& args, Input& input) {
    if constexpr (requires { backend_.prepare_normed(args, input); }) {
      run([&] { return backend_.prepare_normed(args, input); });
    } else {
      rms_norm(args);
      prepare({args.out, args.out_stride, args.num_rows, args.dim, args.group_scale}, input);
    }
  }

  /// Rotated queries, and keys and values in their pages.
  template <KVStorage KV>
  void project_heads(const HeadsArgs<Weight, Input, KV>& args) {
    if constexpr (requires { backend_.project_heads(args); }) {
      if (backend_.fuses(args)) return run([&] { return backend_.project_heads(args); });
    }
    project_heads_apart(args);
  }
  /// The same, one launch after the other.
  template <KVStorage KV>
  void project_heads_apart(const HeadsArgs<Weight, Input, KV>& args) {
    for (const auto& product : args.products) matmul(product);
    for (const RmsNormArgs& norm : args.norms) {
      if (norm.num_rows > 0) rms_norm(norm);
    }
    for (const RopeArgs& rope : args.ropes) run([&] { return backend_.rope(rope); });
    run([&] { return backend_.append_kv(args.append); });
  }

  /// The input of `args.next`.
  void gated_matmul(const GateArgs<Weight, Input>& args, Input& out) {
    if constexpr (requires { backend_.gated_matmul(args, out); }) {
      if (backend_.fuses(args)) return run([&] { return backend_.gated_matmul(args, out); });
    }
    const std::int64_t num_rows = args.input->num_rows(), cols = args.gate->rows;
    matmul({StepOperation::kGateUp, args.gate, args.input, args.gate_bias, args.gate_rows, args.stride});
    matmul({StepOperation::kGateUp, args.up, args.input, args.up_bias, args.up_rows, args.stride});
    run([&] {
      return backend_.glu({.gate = args.gate_rows, .gate_stride = args.stride, .up = args.up_rows, .up_stride = args.stride,
                           .out = args.gate_rows, .out_stride = args.stride, .num_rows = num_rows, .dim = cols,
                           .activation = args.activation});
    });
    prepare({args.gate_rows, args.stride, num_rows, cols}, out);
  }

  /// Whether the maximum of each row of a product can be had without the product.
  bool has_argmax(const Weight& weight) const {
    if constexpr (requires { backend_.has_argmax(weight); }) return backend_.has_argmax(weight);
    return false;
  }
  /// Requires: has_argmax(weight).
  void argmax(const Weight& weight, const Input& input, std::span<RowArgmax> best) {
    KVPAGE_ASSERT(has_argmax(weight), "the backend has an argmax for this matrix");
    if constexpr (requires { backend_.argmax(weight, input, best); }) run([&] { return backend_.argmax(weight, input, best); });
  }

  /// Floats from one place of the backend's memory to another.
  void copy(float* to, const float* from, std::int64_t count) {
    if (!status_.ok()) return;
    const std::span<std::byte> target(reinterpret_cast<std::byte*>(to), static_cast<std::size_t>(count) * sizeof(float));
    if constexpr (BackendTraits<B>::kHostMemory) {
      backend_.upload(target.data(), {reinterpret_cast<const std::byte*>(from), target.size()});
    } else {
      staging_.resize(target.size());
      backend_.download(reinterpret_cast<const std::byte*>(from), staging_);
      backend_.upload(target.data(), staging_);
    }
  }

 private:
  template <class Launch>
  void run(const Launch& launch) {
    if (status_.ok()) status_ = launch();
  }

  B& backend_;
  Status status_;
  std::vector<std::byte> staging_;
};

}  // namespace kvpage::engine
