/// \file Lets one mmap of this program fail.
#pragma once

#include <cstdint>

namespace kvpage_test {

/// While it lives, the `k`-th mmap from now on (1 = the next one) fails for want of memory. Not of malloc, which maps by itself.
/// The sanitizers have an mmap of their own, which cannot be replaced: with them nothing fails.
class FailedMapping {
 public:
  explicit FailedMapping(std::int64_t k) noexcept;
  ~FailedMapping();
  FailedMapping(const FailedMapping&) = delete;
  FailedMapping& operator=(const FailedMapping&) = delete;

  /// False when there were fewer than k so far.
  [[nodiscard]] bool happened() const noexcept;
};

}  // namespace kvpage_test
