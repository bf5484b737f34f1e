#include "support/catch.hpp"
#include "support/isa.hpp"

#include <kvpage/exec/cpu.hpp>

#include <cfenv>
#include <mutex>
#include <string>

namespace {
using kvpage::Cpu;
using kvpage::Isa;

/// Items of [0, n) by how often parallel_for gave them out.
std::vector<int> coverage(Cpu& cpu, std::int64_t n, std::int64_t grain) {
  std::vector<int> counts(static_cast<std::size_t>(n), 0);
  std::mutex mutex;
  cpu.parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end, int worker) {
    const std::lock_guard lock(mutex);
    REQUIRE(worker >= 0);
    REQUIRE(worker < cpu.num_threads());
    REQUIRE(begin < end);
    for (std::int64_t i = begin; i < end; ++i) ++counts[static_cast<std::size_t>(i)];
  });
  return counts;
}
}  // namespace

TEST_CASE("exec.cpu.parallel_for_covers_every_item_once", "[exec]") {
  for (const int num_threads : {1, 2, 3, 7}) {
    Cpu cpu({.num_threads = num_threads});
    REQUIRE(cpu.num_threads() == num_threads);
    for (const std::int64_t n : {0, 1, 2, 3, 17, 100, 1000}) {
      for (const std::int64_t grain : {1, 3, 16, 5000}) {
        CAPTURE(num_threads, n, grain);
        REQUIRE(coverage(cpu, n, grain) == std::vector<int>(static_cast<std::size_t>(n), 1));
      }
    }
  }
}

TEST_CASE("exec.cpu.parallel_does_every_part_once", "[exec]") {
  for (const int num_threads : {1, 2, 3, 7}) {
    Cpu cpu({.num_threads = num_threads});
    for (int section = 0; section < 1000; ++section) {
      std::vector<int> counts(static_cast<std::size_t>(num_threads), 0);
      cpu.parallel([&](int part) { ++counts.at(static_cast<std::size_t>(part)); });
      REQUIRE(counts == std::vector<int>(static_cast<std::size_t>(num_threads), 1));
    }
  }
}

TEST_CASE("exec.cpu.a_forced_instruction_set_is_used_or_refused_by_name", "[exec]") {
  const kvpage::CpuFeatures features = kvpage::detect_cpu_features();
  for (const Isa isa : kvpage::kAllIsas) {
    CAPTURE(kvpage::isa_name(isa));
    if (const char* missing = kvpage::missing_feature(isa, features)) {
      try {
        const Cpu cpu({.num_threads = 1, .isa = isa});
        FAIL("an unsupported instruction set was accepted");
      } catch (const kvpage::ConfigError& error) {
        REQUIRE(std::string(error.what()) == missing);
      }
    } else {
      REQUIRE(Cpu({.num_threads = 1, .isa = isa}).isa() == isa);
    }
  }
  REQUIRE(Cpu({.num_threads = 1}).isa() == kvpage::best_isa(features));
}

TEST_CASE("exec.cpu.a_missing_feature_is_named", "[exec]") {
  kvpage::CpuFeatures features{};
  REQUIRE(kvpage::missing_feature(Isa::kGeneric, features) == nullptr);
  REQUIRE(std::string(kvpage::missing_feature(Isa::kAvx2, features)).find("AVX2") != std::string::npos);
  REQUIRE(kvpage::best_isa(features) == Isa::kGeneric);
  features.avx2 = features.fma = features.half_conversion = true;
  REQUIRE(kvpage::best_isa(features) == Isa::kAvx2);
  REQUIRE(std::string(kvpage::missing_feature(Isa::kAvxVnni, features)).find("AVX-VNNI") != std::string::npos);
  features.avx512_base = true;  // AVX-512 without VNNI runs avx2
  REQUIRE(kvpage::best_isa(features) == Isa::kAvx2);
  REQUIRE(std::string(kvpage::missing_feature(Isa::kAvx512Vnni, features)).find("AVX512-VNNI") != std::string::npos);
  features.avx_vnni = true;
  REQUIRE(kvpage::best_isa(features) == Isa::kAvxVnni);
  features.avx512_vnni = true;
  REQUIRE(kvpage::best_isa(features) == Isa::kAvx512Vnni);
}

TEST_CASE("exec.cpu.names_of_instruction_sets_round_trip", "[exec]") {
  for (const Isa isa : kvpage::kAllIsas) REQUIRE(kvpage::parse_isa(kvpage::isa_name(isa)) == isa);
  REQUIRE_FALSE(kvpage::parse_isa("avx").has_value());
  REQUIRE_FALSE(kvpage::parse_isa("").has_value());
}

TEST_CASE("exec.cpu.the_callers_executor_replaces_the_pool", "[exec]") {
  struct Serial {
    int sections = 0;
    static void run(void* self, kvpage::ThreadPool::Task task, void* context) {
      ++static_cast<Serial*>(self)->sections;
      for (int worker = 2; worker >= 0; --worker) task(context, worker);
    }
  } serial;
  const kvpage::CpuExecutor executor{&Serial::run, &serial, 3};
  Cpu cpu({.executor = &executor});
  REQUIRE(cpu.num_threads() == 3);
  REQUIRE(coverage(cpu, 100, 7) == std::vector<int>(100, 1));
  REQUIRE(serial.sections == 1);
  const kvpage::CpuExecutor no_function{};
  REQUIRE_THROWS_AS(Cpu({.executor = &no_function}), kvpage::ConfigError);
  const kvpage::CpuExecutor no_threads{&Serial::run, &serial, 0};
  REQUIRE_THROWS_AS(Cpu({.executor = &no_threads}), kvpage::ConfigError);
}

TEST_CASE("exec.cpu.sections_round_to_nearest_whatever_the_caller_set", "[exec]") {
  const volatile float one = 1.0f;
  const volatile float tiny = 0x1p-30f;
  for (const int num_threads : {1, 2}) {
    Cpu cpu({.num_threads = num_threads});
    REQUIRE(std::fesetround(FE_UPWARD) == 0);
    std::atomic<int> wrong{0};
    cpu.parallel_for(8, 1, [&](std::int64_t, std::int64_t, int) {
      if (one + tiny != 1.0f) ++wrong;
    });
    const int mode = std::fegetround();
    std::fesetround(FE_TONEAREST);
    REQUIRE(mode == FE_UPWARD);
    REQUIRE(wrong.load() == 0);
  }
}

TEST_CASE("exec.cpu.bad_thread_counts_are_refused", "[exec]") {
  REQUIRE_THROWS_AS(Cpu({.num_threads = -1}), kvpage::ConfigError);
  REQUIRE(Cpu().num_threads() >= 1);
}
