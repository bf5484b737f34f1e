/// \file Where the weights of a loaded model lie: on huge pages, once, and no longer in the mapped file.
#include "engine/loader/gguf.hpp"
#include "engine/model/mapped_memory.hpp"
#include "engine/tiny_models.hpp"
#include "support/environment.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace kvpage_test {
namespace {

using kvpage::engine::Gguf;
using kvpage::engine::MappedMemory;

/// Bytes of addresses of this process that name `path`.
std::int64_t mapped_bytes_of(const std::string& path) {
  std::ifstream maps("/proc/self/maps");
  REQUIRE(maps);
  std::int64_t bytes = 0;
  for (std::string line; std::getline(maps, line);) {
    if (!line.ends_with(path)) continue;
    std::istringstream range(line);
    std::uint64_t begin = 0, end = 0;
    char dash = 0;
    range >> std::hex >> begin >> dash >> end;
    bytes += static_cast<std::int64_t>(end - begin);
  }
  return bytes;
}

std::int64_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kibibytes = 0;
    if (word == "VmRSS:" && status >> kibibytes) return kibibytes * 1024;
  }
  FAIL("the system does not say what is resident");
  return 0;
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

TEST_CASE("engine.memory.a_loaded_model_is_resident_once_and_maps_nothing_of_its_file", "[engine]") {
  const std::string path = model_path("smollm2").string();
  auto opened = Gguf::open(path);
  if (!opened) FAIL(opened.error().to_string());
  auto file = std::make_unique<Gguf>(std::move(*opened));
  const auto spec = kvpage::engine::read_model_spec(*file);
  REQUIRE(spec);
  REQUIRE(mapped_bytes_of(path) >= file->file_bytes());

  const std::int64_t before = resident_bytes();
  auto config = tiny_config("cpu", "f16", 2);
  config.pool_tokens = 64;
  auto model = kvpage::engine::load_language_model(*file, *spec, config);
  if (!model) FAIL(model.error().to_string());
  const auto uses = (*model)->kernel_uses();
  std::int64_t weight_bytes = 0;
  for (const auto& use : uses) weight_bytes += use.operation == "gemm" || use.operation == "rms_norm" ? use.bytes : 0;
  REQUIRE(std::none_of(uses.begin(), uses.end(), [](const auto& use) { return use.in_file; }));
  file.reset();
  CHECK(mapped_bytes_of(path) == 0);
  kvpage::engine::SequenceRunner runner(**model);
  REQUIRE_FALSE(append_all(runner, some_ids(8)).empty());
  const std::int64_t grown = resident_bytes() - before;
  INFO("weights " << weight_bytes << ", resident " << grown);
  CHECK(grown >= weight_bytes * 9 / 10);
  CHECK(grown <= weight_bytes * 102 / 100 + 16'000'000);
}

}  // namespace kvpage_test
