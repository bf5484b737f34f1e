/// \file Built with -fno-exceptions -fno-rtti: a bad configuration reaches the handler that the program installed.
#include <kvpage/base/error.hpp>
#include <kvpage/cache/block_allocator.hpp>
#include <kvpage/kernels/gemm/cpu.hpp>
#include <kvpage/kv/kv_formats.hpp>
#include <kvpage/kv/kv_pool.hpp>
#include <kvpage/precision/precisions.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>

int main() {
  kvpage::set_assert_handler([](const kvpage::AssertInfo& info) {
    const bool expected = std::strcmp(info.message, "block_size must be positive") == 0;
    std::printf("handler: %s\n", info.message);
    std::fflush(stdout);
    std::_Exit(expected ? 0 : 2);
  });
  kvpage::throw_config_error("block_size must be positive", -1, 1, "tokens");
}
