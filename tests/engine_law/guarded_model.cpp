#include "engine_law/guarded_model.hpp"

#include "engine/backend/cpu_backend.hpp"
#include "engine/backend/reference_backend.hpp"
#include "engine/model/load_transformer.hpp"
#include "engine_law/guarded_backend.hpp"
#include "support/catch.hpp"

#include <stdexcept>

namespace kvpage_test {
namespace {

using namespace kvpage;
using namespace kvpage::engine;
using GuardedCpu = GuardedBackend<CpuBackend>;
using GuardedReference = GuardedBackend<ReferenceBackend>;
static_assert(Backend<GuardedCpu> && Backend<GuardedReference>);
static_assert(!BackendTraits<GuardedCpu>::kHostMemory && BackendTraits<CpuBackend>::kHostMemory);

}  // namespace

std::unique_ptr<LanguageModel> load_guarded(const Gguf& file, const ModelConfig& config) {
  const auto spec = read_model_spec(file).value();
  const LoadRequest request{file, spec, config};
  const std::string format = config.kv_type.empty() ? default_kv_type(config.kernels) : config.kv_type;
  const auto load = [&]() -> LoadResult {
    const bool cpu = config.kernels == GuardedCpu::kName;
    if (!cpu && format == ReferenceKVFormat::kName) return load_transformer<GuardedReference, ReferenceKVFormat>(request);
    if (cpu && format == DefaultKVFormat::kName) return load_transformer<GuardedCpu, DefaultKVFormat>(request);
    if (cpu && format == Int8KV::kName) return load_transformer<GuardedCpu, Int8KV>(request);
    throw std::invalid_argument("no guarded model of " + config.kernels + " with " + format);
  };
  auto model = load();
  if (!model) FAIL(model.error().to_string());
  return std::move(*model);
}

void touch_guarded(GuardedMemory kind) {
  const GuardedAddresses& seen = GuardedCpu::seen();
  const void* address = kind == GuardedMemory::kNormWeight   ? seen.norm_weight
                        : kind == GuardedMemory::kActivation ? seen.activation
                        : kind == GuardedMemory::kPage       ? seen.page
                        : kind == GuardedMemory::kTable      ? seen.table
                                                             : seen.logits;
  if (address != nullptr) static_cast<void>(*static_cast<const volatile char*>(address));
}

}  // namespace kvpage_test
