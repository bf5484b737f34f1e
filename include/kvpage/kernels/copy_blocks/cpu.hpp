/// \file copy_blocks on the CPU backend: whole pages as one byte range, parts of pages layer by layer.
#pragma once

#include <kvpage/exec/cpu.hpp>
#include <kvpage/kernels/copy_blocks/reference.hpp>

#include <cstring>

KVPAGE_BEGIN_NAMESPACE

/// See CopyBlocksArgs. Cost: a full page is one memcpy. Threads: one launch at a time per Cpu.
template <KVStorage KV>
[[nodiscard]] Status copy_blocks(Cpu& cpu, const CopyBlocksArgs<KV>& args) noexcept {
  if (const Status status = validate(args); !status.ok()) return status;
  const auto num_copies = static_cast<std::int64_t>(args.copies.size());
  cpu.parallel_for(num_copies, 1, [&args](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      const BlockCopy& copy = args.copies[static_cast<std::size_t>(i)];
      if (copy.num_tokens == args.pool->shape().block_size) {
        const std::span<std::byte> src = args.pool->page(copy.src);
        std::memcpy(args.pool->page(copy.dst).data(), src.data(), src.size());
      } else {
        reference::detail::copy_tokens(*args.pool, copy);
      }
    }
  });
  return {};
}

KVPAGE_END_NAMESPACE
