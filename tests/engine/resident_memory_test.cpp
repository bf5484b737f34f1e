/// \file Where the weights of a model lie: on huge pages, once, and not in the mapped file, neither during the load nor after it.
#include "engine/loader/gguf.hpp"
#include "engine/memory_plan.hpp"
#include "engine/backend/mapped_memory.hpp"
#include "engine/own_memory.hpp"
#include "engine/tiny_models.hpp"
#include "engine/tokenizer_from_gguf.hpp"
#include "support/environment.hpp"
#include "support/file_maps.hpp"

#include <unistd.h>

#include <algorithm>

namespace kvpage_test {
namespace {

using kvpage::engine::Gguf;
using kvpage::engine::MappedMemory;

std::int64_t own_bytes() {
  const auto bytes = kvpage::engine::own_memory_bytes();
  if (!bytes) FAIL("the system does not say what is resident");
  return *bytes;
}

}  // namespace

TEST_CASE("engine.memory.large_memory_starts_at_a_huge_page", "[engine]") {
  constexpr std::int64_t kHuge = MappedMemory::kHugePageBytes;
  std::vector<MappedMemory> all;
  for (const std::int64_t bytes : {std::int64_t{1}, std::int64_t{4096}, kHuge - 1, kHuge, kHuge + 1, 3 * kHuge + 12'345, kHuge}) {
    all.emplace_back(bytes);
    const auto memory = all.back().span();
    INFO(bytes);
    REQUIRE(std::ssize(memory) == bytes);
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    CHECK(address % (bytes < kHuge ? 4096 : kHuge) == 0);
    CHECK(std::all_of(memory.begin(), memory.end(), [](std::byte b) { return b == std::byte{0}; }));
    std::fill(memory.begin(), memory.end(), std::byte{1});
  }
  MappedMemory taken = std::move(all[5]);
  CHECK(all[5].span().empty());
  CHECK(taken.span().back() == std::byte{1});
  CHECK(MappedMemory(0).span().empty());
}

TEST_CASE("engine.memory.own_memory_is_what_was_touched_and_not_pages_of_files", "[engine]") {
  constexpr std::int64_t kBytes = std::int64_t{16} << 20, kSmall = std::int64_t{1} << 20;
  const std::int64_t before = own_bytes();
  MappedMemory memory(kBytes);
  CHECK(own_bytes() <= before + kSmall);
  std::fill(memory.span().begin(), memory.span().end(), std::byte{1});
  CHECK(own_bytes() >= before + kBytes);
  CHECK(own_bytes() <= before + kBytes + kSmall);
  const auto file = kvpage::engine::MappedFile::open(model_path("smollm2"));
  REQUIRE(file);
  CHECK(std::count(file->bytes().begin(), file->bytes().end(), std::byte{1}) > 0);
  REQUIRE(FileMaps(model_path("smollm2")).resident_bytes > kBytes);
  CHECK(own_bytes() <= before + kBytes + kSmall);
}

// Whatever is touched through the map makes some more of the file resident, how much depends on the page cache.
TEST_CASE("engine.memory.a_plan_and_a_load_touch_no_data_through_the_map", "[engine]") {
  const std::string path = model_path("smollm2").string();
  const auto file = Gguf::open(path);
  if (!file) FAIL(file.error().to_string());
  const auto spec = kvpage::engine::read_model_spec(*file);
  const auto tokenizer = kvpage::engine::read_tokenizer(*file);
  REQUIRE(spec);
  REQUIRE(tokenizer);
  const auto page = static_cast<std::int64_t>(::sysconf(_SC_PAGESIZE));
  const std::int64_t header_bytes = file->tensors().front().data.data() - file->part(0).bytes().data();
  const std::int64_t most = (header_bytes + page - 1) / page * page;
  CHECK(FileMaps(path).resident_bytes <= most);
  const TempDir dir;
  auto config = tiny_config("cpu", "f16", 2);
  config.pool_tokens = 64;
  config.packed_cache = (dir / "cache").string();
  REQUIRE(kvpage::engine::check_tensors(*file, *spec));
  CHECK(kvpage::engine::plan_memory({*file, *spec, *tokenizer}, config).weight_bytes > 0);
  REQUIRE(kvpage::engine::plan_kernel_uses(*file, *spec, config));
  CHECK(FileMaps(path).resident_bytes <= most);
  for (int start = 0; start < 2; ++start) REQUIRE(kvpage::engine::load_language_model(*file, *spec, config));
  CHECK(FileMaps(path).resident_bytes <= most);
}

TEST_CASE("engine.memory.a_loaded_model_is_in_memory_once_and_maps_nothing_of_its_file", "[engine]") {
  const std::string path = model_path("smollm2").string();
  auto opened = Gguf::open(path);
  if (!opened) FAIL(opened.error().to_string());
  auto file = std::make_unique<Gguf>(std::move(*opened));
  const auto spec = kvpage::engine::read_model_spec(*file);
  REQUIRE(spec);
  REQUIRE(FileMaps(path).mapped_bytes >= file->file_bytes());

  const std::int64_t before = own_bytes();
  std::int64_t peak = 0;
  auto config = tiny_config("cpu", "f16", 2);
  config.pool_tokens = 64;
  config.progress = [&](const auto&) { peak = std::max(peak, own_bytes()); };
  auto model = kvpage::engine::load_language_model(*file, *spec, config);
  if (!model) FAIL(model.error().to_string());
  const auto uses = (*model)->kernel_uses();
  std::int64_t weight_bytes = 0;
  for (const auto& use : uses) weight_bytes += use.operation == "gemm" || use.operation == "rms_norm" ? use.bytes : 0;
  REQUIRE(std::none_of(uses.begin(), uses.end(), [](const auto& use) { return use.in_file; }));
  file.reset();
  CHECK(FileMaps(path).mapped_bytes == 0);
  kvpage::engine::SequenceRunner runner(**model);
  REQUIRE_FALSE(append_all(runner, some_ids(8)).empty());
  const std::int64_t grown = own_bytes() - before;
  INFO("weights " << weight_bytes << ", at the peak of the load " << peak - before << ", in the end " << grown);
  CHECK(peak - before >= weight_bytes * 9 / 10);
  CHECK(peak - before <= weight_bytes * 102 / 100 + 4'000'000);  // a slice of the file beside them
  CHECK(grown >= weight_bytes * 9 / 10);
  CHECK(grown <= weight_bytes * 102 / 100 + 16'000'000);
}

}  // namespace kvpage_test
