/// \file copy_blocks on the CPU backend: whole pages as one byte range, parts of pages code by code.
#pragma once

#include <kvpage/exec/cpu.hpp>
#include <kvpage/kernels/copy_blocks/args.hpp>
#include <kvpage/kv/paged_kv_view_access.hpp>

#include <cstring>

KVPAGE_BEGIN_NAMESPACE

namespace detail {
template <bool kIsKey, KVStorage KV>
void copy_page_side(const PagedKVView<KV>& view, const CopyOp& copy, std::int64_t head) noexcept {
  using Side = KVSide<KV, kIsKey>;
  const Side source(view, copy.source, head);
  const Side target(view, copy.target, head);
  for (std::int64_t t = 0; t < copy.num_tokens; ++t) {
    for (std::int64_t d = 0; d < view.dims.head_dim; ++d) {
      const std::int64_t at = source.index(t, d);
      store_code<typename Side::Codec>(target.codes, at, load_code<typename Side::Codec>(source.codes, at));
    }
    for (std::int64_t p = 0; p < source.shape.num_params; ++p) {
      const std::int64_t at = KV::Layout::param_index(view.dims, source.shape, t, p);
      target.params[at] = source.params[at];
    }
  }
}

/// The first tokens of a page.
template <KVStorage KV>
void copy_page_start(const KVPool<KV>& pool, const CopyOp& copy) noexcept {
  for (std::int64_t layer = 0; layer < pool.shape().num_layers; ++layer) {
    const PagedKVView<KV> view = pool.view(layer);
    for (std::int64_t head = 0; head < view.dims.num_kv_heads; ++head) {
      copy_page_side<true>(view, copy, head);
      copy_page_side<false>(view, copy, head);
    }
  }
}
}  // namespace detail

/// copy_blocks of copies that `validate_tables` accepts.
template <KVStorage KV>
[[nodiscard]] Status copy_blocks(Cpu& cpu, const CopyBlocksArgs<KV>& args, TablesChecked) noexcept {
  if (const Status status = validate(args); !status.ok()) return status;
  const auto num_copies = static_cast<std::int64_t>(args.copies.size());
  cpu.parallel_for(num_copies, 1, [&args](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      const CopyOp& copy = args.copies[static_cast<std::size_t>(i)];
      if (copy.num_tokens == args.pool->shape().block_size) {
        const std::span<std::byte> source = args.pool->page(copy.source);
        std::memcpy(args.pool->page(copy.target).data(), source.data(), source.size());
      } else {
        detail::copy_page_start(*args.pool, copy);
      }
    }
  });
  return {};
}

/// See CopyBlocksArgs. Cost: a full page is one memcpy. Threads: one launch at a time per Cpu.
template <KVStorage KV>
[[nodiscard]] Status copy_blocks(Cpu& cpu, const CopyBlocksArgs<KV>& args) noexcept {
  if (const Status status = validate_launch(args); !status.ok()) return status;
  return copy_blocks(cpu, args, kTablesChecked);
}

KVPAGE_END_NAMESPACE
