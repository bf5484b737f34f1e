/// \file Each allocation and each mapping of a load may fail: an error, no leak, and the next load works.
#include "engine/chat/chat_template.hpp"
#include "engine/tiny_models.hpp"
#include "engine/tokenizer_from_gguf.hpp"
#include "support/allocation_count.hpp"
#include "support/failed_mapping.hpp"

namespace kvpage_test {
namespace {

using namespace kvpage::engine;

enum class LoadEnd : std::uint8_t { kLoaded, kRefused, kNoMemory };

/// All that a program loads of a file. What an error says is thrown away with everything else.
LoadEnd load_everything(const std::filesystem::path& path, const ModelConfig& config) try {
  const auto file = Gguf::open(path);
  if (!file) return LoadEnd::kRefused;
  const auto spec = read_model_spec(*file);
  const auto tokenizer = read_tokenizer(*file);
  const auto source = read_chat_template(*file);
  if (!spec || !tokenizer || !source || !read_end_tokens(*file, *tokenizer)) return LoadEnd::kRefused;
  if (*source && !ChatTemplate::compile(**source)) return LoadEnd::kRefused;
  return load_language_model(*file, *spec, config) ? LoadEnd::kLoaded : LoadEnd::kRefused;
} catch (const std::bad_alloc&) {
  return LoadEnd::kNoMemory;
}

/// Fails one allocation or mapping after the other, and each load that failed must not be felt by the next one.
template <class Failed>
std::int64_t fail_each(const TinyFile& file, const ModelConfig& config) {
  REQUIRE(load_everything(file.path(), config) == LoadEnd::kLoaded);
  const std::filesystem::path path = file.path();
  std::int64_t k = 1, num_ends = 0;
  for (bool happened = true; happened; ++k) {
    INFO("number " << k);
    const std::int64_t before = live_allocations();
    LoadEnd end{};
    {
      const Failed failed(k);
      end = load_everything(path, config);
      happened = failed.happened();
    }
    num_ends += end == LoadEnd::kLoaded ? 0 : 1;
    REQUIRE(live_allocations() == before);
  }
  CHECK(load_everything(path, config) == LoadEnd::kLoaded);
  return num_ends;
}

}  // namespace

TEST_CASE("engine.allocations.each_of_a_load_may_fail", "[engine]") {
  for (const TinyModel& shape : {every_switch(), quantised_model()}) {
    const TinyFile file(shape);
    CHECK(fail_each<FailedAllocation>(file, tiny_config("cpu", "int8", 3)) > 300);
  }
}

TEST_CASE("engine.allocations.each_mapping_of_a_load_may_fail", "[engine]") {
#if defined(__SANITIZE_ADDRESS__)
  const std::int64_t least = 0;  // see FailedMapping
#else
  const std::int64_t least = 2;
#endif
  const TinyFile file(quantised_model());
  for (const int threads : {1, 3}) CHECK(fail_each<FailedMapping>(file, tiny_config("cpu", "int8", threads)) >= least);
}

}  // namespace kvpage_test
