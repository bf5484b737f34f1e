/// \file Backend: what the transformer asks of the kernels, so that one forward pass serves every implementation.
#pragma once

#include "engine/backend/matrix_args.hpp"

#include <kvpage/base/error.hpp>
#include <kvpage/base/expected.hpp>
#include <kvpage/kernels/activation/args.hpp>
#include <kvpage/kernels/append_kv/args.hpp>
#include <kvpage/kernels/copy_blocks/args.hpp>
#include <kvpage/kernels/paged_attention/args.hpp>
#include <kvpage/kernels/rms_norm/args.hpp>
#include <kvpage/kernels/rope/args.hpp>
#include <kvpage/kv/kv_formats.hpp>
#include <kvpage/quant/weight_view.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

namespace kvpage::engine {

/// How a backend works: `isa` is one of isa_names() or empty.
struct BackendConfig {
  int num_threads = 1;
  std::string_view isa{};
};

/// Brings part of a weight's data from the file into memory, where it stays until the next call. Nothing: it cannot be read.
using FetchCallback = std::function<std::span<const std::byte>(std::span<const std::byte>)>;

/// A backend owns memory and computes on it. All pointers in the args of an operation lie in its buffers; nobody else may read or write
/// through them, unless the backend says `kHostMemory`.
///
/// Memory:
///  - `allocate(bytes)`: a Buffer, zeroed, aligned to 64 bytes, freed when it is destroyed. Errors: std::bad_alloc;
///  - `upload(to, bytes)`, `download(from, bytes)`: copies into and out of buffers. A download waits for what was launched before it;
///  - `load(view, fetch)`: a weight matrix in the form its kernels read; `fetch` gives the view's data, each byte once. Errors: a scale
///    that is NaN or infinite, kCapacity, data that cannot be read. A Weight is a handle: it lives as long as the backend.
///
/// Operations:
///  - `prepare(RowsArgs, input)`: activations in the form that `matmul` reads, once for all matrices that share them;
///  - `matmul(MatmulArgs)`, `embedding(LookupArgs)`; the rest takes the args of the kernel it is named after. `append_kv`,
///    `paged_attention` and `copy_blocks` take any `KV<Format>`. What is in tables (ids, lengths, slots, positions) was checked once for
///    the step, on the host (`validate_tables`): an operation need not look.
///
/// What a backend may have besides, faster than its parts or to say more of itself, is found by `requires`: see backend_traits.hpp for the
/// members and launcher.hpp for what is done without them.
template <class B>
concept Backend = requires(B backend, typename B::Buffer& buffer, typename B::Input& input, const typename B::Weight& weight,
                           const MatmulArgs<typename B::Weight, typename B::Input>& matmul, std::int64_t n,
                           const PagedAttentionArgs<typename B::template KV<typename B::DefaultKV>>& attention,
                           const AppendKvArgs<typename B::template KV<typename B::DefaultKV>>& append,
                           const CopyBlocksArgs<typename B::template KV<typename B::DefaultKV>>& copies) {
  { B::kName } -> std::convertible_to<std::string_view>;
  { backend.allocate(n) } -> std::same_as<typename B::Buffer>;
  { buffer.span() } -> std::same_as<std::span<std::byte>>;
  { backend.upload(buffer.span().data(), std::span<const std::byte>{}) } -> std::same_as<void>;
  { backend.download(buffer.span().data(), std::span<std::byte>{}) } -> std::same_as<void>;
  { backend.load(WeightView{}, FetchCallback{}) } -> std::same_as<Expected<typename B::Weight, Status>>;
  { weight.rows + weight.cols } -> std::convertible_to<std::int64_t>;
  { input.num_rows() } -> std::same_as<std::int64_t>;
  { backend.prepare(RowsArgs{}, input) } -> std::same_as<Status>;
  { backend.matmul(matmul) } -> std::same_as<Status>;
  { backend.embedding(LookupArgs<typename B::Weight>{}) } -> std::same_as<Status>;
  { backend.rms_norm(RmsNormArgs{}) } -> std::same_as<Status>;
  { backend.rope(RopeArgs{}) } -> std::same_as<Status>;
  { backend.append_kv(append) } -> std::same_as<Status>;
  { backend.paged_attention(attention) } -> std::same_as<Status>;
  { backend.copy_blocks(copies) } -> std::same_as<Status>;
  { backend.glu(GluArgs{}) } -> std::same_as<Status>;
  { backend.soft_cap(SoftCapArgs{}) } -> std::same_as<Status>;
};

}  // namespace kvpage::engine
