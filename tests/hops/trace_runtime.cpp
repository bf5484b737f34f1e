/// \file The hooks that -finstrument-functions calls, and the log that they fill. Built without instrumentation itself.
#include "hops/trace.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr std::size_t kMaxCalls = std::size_t{1} << 24;

std::atomic<bool> recording{false};
std::atomic<std::size_t> call_count{0};
std::vector<void*> calls;

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "trace: %s\n", what);
  std::_Exit(1);
}

/// Where the program file is loaded; addresses in the file are relative to it.
std::uintptr_t load_base() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&kvpage_test::trace::start), &info) == 0) give_up("the program's load address is unknown");
  return reinterpret_cast<std::uintptr_t>(info.dli_fbase);
}

}  // namespace

namespace kvpage_test::trace {

void start() {
  calls.assign(kMaxCalls, nullptr);
  call_count.store(0);
  recording.store(true);
}

std::int64_t stop(const std::string& path) {
  recording.store(false);
  const std::size_t count = call_count.load();
  if (count > kMaxCalls) give_up("more calls than the log holds; trace a smaller model");
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) give_up("the trace file cannot be written");
  const std::uintptr_t base = load_base();
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0 && calls[i] == calls[i - 1]) continue;
    std::fprintf(file, "%llx\n", static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(calls[i]) - base));
  }
  if (std::fclose(file) != 0) give_up("the trace file cannot be written");
  return static_cast<std::int64_t>(count);
}

}  // namespace kvpage_test::trace

extern "C" {

void __cyg_profile_func_enter(void* function, void* /*call_site*/) {
  if (!recording.load(std::memory_order_relaxed)) return;
  const std::size_t index = call_count.fetch_add(1, std::memory_order_relaxed);
  if (index < kMaxCalls) calls[index] = function;
}

void __cyg_profile_func_exit(void* /*function*/, void* /*call_site*/) {}

}  // extern "C"
