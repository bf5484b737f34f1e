/// \file A second unit that includes the same headers: nothing may be defined twice.
#include "consumer.hpp"

#include <kvpage/base/error.hpp>
#include <kvpage/cache/block_allocator.hpp>
#include <kvpage/kernels/gemm/cpu.hpp>
#include <kvpage/kv/kv_formats.hpp>
#include <kvpage/kv/kv_pool.hpp>
#include <kvpage/precision/precisions.hpp>

std::size_t precisions_seen_by_the_other_unit() { return kvpage::Precisions::kSize; }
