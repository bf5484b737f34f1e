/// \file An mmap that fails when a test says so.
#include "support/failed_mapping.hpp"

#include <atomic>
#include <cerrno>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {
std::atomic<std::int64_t> until_failure{-1};  // the mmap that makes it 0 fails
}  // namespace

namespace kvpage_test {

FailedMapping::FailedMapping(std::int64_t k) noexcept { until_failure = k; }
FailedMapping::~FailedMapping() { until_failure = -1; }
bool FailedMapping::happened() const noexcept { return until_failure.load() == 0; }

}  // namespace kvpage_test

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" void* mmap(void* address, std::size_t length, int protection, int flags, int file, off_t offset) noexcept {
  if (until_failure.load() > 0 && --until_failure == 0) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, length, protection, flags, file, offset));
}
#endif
