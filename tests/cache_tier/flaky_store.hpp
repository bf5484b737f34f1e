/// \file FlakyStore: bytes in a vector that fail when told to, in the ways that disks fail.
#pragma once

#include <kvpage/cache/tier_store.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace kvpage_test {

/// What becomes of one call.
enum class StoreFault { kNone, kNothing, kHalf };  ///< kHalf: half of the bytes are moved, then it fails

/// Outlives the tiers that it serves, as a disk does.
struct Disk {
  std::vector<std::byte> bytes;
  std::vector<StoreFault> faults;  ///< of the coming calls, first one last; beyond them nothing fails
  std::int64_t num_calls = 0;
  std::int64_t fail_at = -1;  ///< that call moves nothing ...
  bool for_good = false;      ///< ... nor does any later one

  StoreFault next_fault() {
    const std::int64_t call = num_calls++;
    if (fail_at >= 0 && (for_good ? call >= fail_at : call == fail_at)) return StoreFault::kNothing;
    if (faults.empty()) return StoreFault::kNone;
    const StoreFault fault = faults.back();
    faults.pop_back();
    return fault;
  }
};

template <bool kKeepsBytes>
class FlakyStore {
 public:
  static constexpr bool kPersistent = kKeepsBytes;

  explicit FlakyStore(Disk& disk) : disk_(&disk) {}

  [[nodiscard]] std::int64_t capacity_bytes() const noexcept { return static_cast<std::int64_t>(disk_->bytes.size()); }
  bool write(std::int64_t offset, std::span<const std::byte> bytes) {
    return move(bytes.begin(), disk_->bytes.begin() + offset, std::ssize(bytes));
  }
  bool read(std::int64_t offset, std::span<std::byte> bytes) {
    return move(disk_->bytes.begin() + offset, bytes.begin(), std::ssize(bytes));
  }

 private:
  template <class From, class To>
  bool move(From from, To to, std::int64_t count) {
    const StoreFault fault = disk_->next_fault();
    std::copy_n(from, fault == StoreFault::kNone ? count : fault == StoreFault::kHalf ? count / 2 : 0, to);
    return fault == StoreFault::kNone;
  }

  Disk* disk_;
};
static_assert(kvpage::TierStore<FlakyStore<true>> && kvpage::TierStore<FlakyStore<false>>);

}  // namespace kvpage_test
