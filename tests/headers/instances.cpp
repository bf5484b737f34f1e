/// \file Names attention and append of every shipped KV format and the packed kernels of every weight format: both compilers instantiate
/// them, whichever of the two builds the project.
#include <kvpage/kernels/append_kv/cpu.hpp>
#include <kvpage/kernels/gemm/cpu_argmax.hpp>
#include <kvpage/kernels/gemm/cpu_heads.hpp>
#include <kvpage/kernels/gemm/cpu_shipped_panels.hpp>
#include <kvpage/kernels/paged_attention/cpu.hpp>
#include <kvpage/kv/kv_formats.hpp>

namespace kvpage_test {

void name_kernels(kvpage::Cpu& cpu) {
  kvpage::for_each_type(kvpage::KVFormats{}, [&]<class Format>() {
    using KV = kvpage::CpuKV<Format>;
    static_cast<void>(kvpage::append_kv(cpu, kvpage::AppendKvArgs<KV>{}));
    static_cast<void>(kvpage::paged_attention(cpu, kvpage::PagedAttentionArgs<KV>{}));
  });
  static_cast<void>(kvpage::find_panel_kernels({}));
  static_cast<void>(kvpage::gemm_heads(cpu, {}, {}, [](const kvpage::GemmHead&) {}));
  static_cast<void>(kvpage::gemm_argmax(cpu, {}));
}

}  // namespace kvpage_test
