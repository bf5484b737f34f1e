/// \file NoIndex: the index of a plain block pool, which finds nothing and costs nothing.
#pragma once

#include <kvpage/cache/block_allocator_config.hpp>
#include <kvpage/cache/detail/arena.hpp>

KVPAGE_BEGIN_NAMESPACE

/// No prefix sharing: match, publish, pin and reset do not exist.
struct NoIndex {
  static constexpr bool kEnabled = false;
  struct Options {};
  void attach(detail::Arena&, const BlockAllocatorConfig&, const Options&) noexcept {}
};

KVPAGE_END_NAMESPACE
