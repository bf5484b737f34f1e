/// \file GuardedBackend: a backend whose memory only its own operations can touch, as if it lay on a device.
#pragma once

#include "engine/backend/backend_traits.hpp"

#include <sys/mman.h>
#include <cstring>
#include <new>
#include <span>
#include <stdexcept>
#include <utility>

namespace kvpage_test {

/// Memory without access; an operation opens all of it for as long as it runs. One range, so that this is one call of the system.
class GuardedArena {
 public:
  /// Not nested; one thread.
  class Access {
   public:
    Access() { arena().protect(PROT_READ | PROT_WRITE); }
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;
    ~Access() { arena().protect(PROT_NONE); }
  };

  static GuardedArena& arena() {
    static GuardedArena only;
    return only;
  }
  GuardedArena(const GuardedArena&) = delete;
  GuardedArena& operator=(const GuardedArena&) = delete;

  std::span<std::byte> take(std::size_t bytes) {
    const std::size_t begin = used_;
    if (bytes > kBytes - begin) throw std::bad_alloc();
    used_ += (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
    ++num_live_;
    return {start_ + begin, bytes};
  }
  /// The memory is used again, zeroed, once all of it was given back.
  void give_back() {
    if (--num_live_ > 0) return;
    madvise(start_, used_, MADV_DONTNEED);
    used_ = 0;
  }

 private:
  static constexpr std::size_t kPageBytes = 4096;
  static constexpr std::size_t kBytes = std::size_t{1} << 31;

  GuardedArena() {
    void* start = mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) throw std::bad_alloc();
    start_ = static_cast<std::byte*>(start);
  }
  ~GuardedArena() { munmap(start_, kBytes); }
  void protect(int access) {
    if (used_ > 0 && mprotect(start_, used_, access) != 0) throw std::runtime_error("mprotect failed");
  }

  std::byte* start_ = nullptr;
  std::size_t used_ = 0;
  std::int64_t num_live_ = 0;
};

/// Addresses of what operations were given last, one of each kind.
struct GuardedAddresses {
  const void* norm_weight = nullptr;
  const void* activation = nullptr;
  const void* page = nullptr;
  const void* table = nullptr;
  const void* logits = nullptr;
};

/// Has the required members of a backend and no other: what the inner backend fuses is made of its basic operations.
template <class B>
class GuardedBackend {
 public:
  /// Whole pages of the arena.
  class Buffer {
   public:
    Buffer() = default;
    explicit Buffer(std::int64_t bytes) {
      if (bytes > 0) memory_ = GuardedArena::arena().take(static_cast<std::size_t>(bytes));
    }
    Buffer(Buffer&& other) noexcept : memory_(std::exchange(other.memory_, {})) {}
    Buffer& operator=(Buffer&& other) noexcept {
      std::swap(memory_, other.memory_);
      return *this;
    }
    ~Buffer() {
      if (!memory_.empty()) GuardedArena::arena().give_back();
    }
    std::span<std::byte> span() const noexcept { return memory_; }

   private:
    std::span<std::byte> memory_;
  };

  using Weight = typename B::Weight;
  using Input = typename B::Input;
  using DefaultKV = typename B::DefaultKV;
  template <kvpage::KVFormat F>
  using KV = typename B::template KV<F>;
  static constexpr std::string_view kName = B::kName;
  static constexpr int kMaxThreads = kvpage::engine::BackendTraits<B>::kMaxThreads;

  explicit GuardedBackend(const kvpage::engine::BackendConfig& config) : inner_(config) {}
  static GuardedAddresses& seen() {
    static GuardedAddresses addresses;
    return addresses;
  }

  Buffer allocate(std::int64_t bytes) { return Buffer(bytes); }
  void upload(std::byte* to, std::span<const std::byte> bytes) {
    const GuardedArena::Access access;
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  }
  void download(const std::byte* from, std::span<std::byte> bytes) {
    const GuardedArena::Access access;
    if (!bytes.empty()) std::memcpy(bytes.data(), from, bytes.size());
  }

  static std::int64_t packed_weight_bytes(const kvpage::WeightView& view) {
    return kvpage::engine::BackendTraits<B>::packed_weight_bytes(view);
  }
  static bool reads_file(const Weight& weight) { return kvpage::engine::BackendTraits<B>::reads_file(weight); }
  static std::int64_t weight_bytes(const Weight& weight) { return kvpage::engine::BackendTraits<B>::weight_bytes(weight); }
  void reserve_weights(std::int64_t bytes) { kvpage::engine::BackendTraits<B>::reserve_weights(inner_, bytes); }
  kvpage::Expected<Weight, kvpage::Status> load(const kvpage::WeightView& view, const kvpage::engine::FetchCallback& fetch) {
    return inner_.load(view, fetch);
  }

  kvpage::Status prepare(const kvpage::engine::RowsArgs& args, Input& input) {
    return run([&] { return inner_.prepare(args, input); });
  }
  kvpage::Status matmul(const kvpage::engine::MatmulArgs<Weight, Input>& args) {
    if (args.operation == kvpage::engine::StepOperation::kLogits) seen().logits = args.out;
    return run([&] { return inner_.matmul(args); });
  }
  kvpage::Status embedding(const kvpage::engine::LookupArgs<Weight>& args) {
    seen().table = args.tokens;
    return run([&] { return inner_.embedding(args); });
  }
  kvpage::Status rms_norm(const kvpage::RmsNormArgs& args) {
    seen().norm_weight = args.weight, seen().activation = args.x;
    return run([&] { return inner_.rms_norm(args); });
  }
  kvpage::Status rope(const kvpage::RopeArgs& args) {
    return run([&] { return inner_.rope(args); });
  }
  kvpage::Status glu(const kvpage::GluArgs& args) {
    return run([&] { return inner_.glu(args); });
  }
  kvpage::Status soft_cap(const kvpage::SoftCapArgs& args) {
    return run([&] { return inner_.soft_cap(args); });
  }
  template <kvpage::KVStorage Storage>
  kvpage::Status append_kv(const kvpage::AppendKvArgs<Storage>& args) {
    seen().page = args.view.base;
    return run([&] { return inner_.append_kv(args); });
  }
  template <kvpage::KVStorage Storage>
  kvpage::Status paged_attention(const kvpage::PagedAttentionArgs<Storage>& args) {
    return run([&] { return inner_.paged_attention(args); });
  }
  template <kvpage::KVStorage Storage>
  kvpage::Status copy_blocks(const kvpage::CopyBlocksArgs<Storage>& args) {
    return run([&] { return inner_.copy_blocks(args); });
  }

 private:
  template <class Launch>
  kvpage::Status run(const Launch& launch) {
    const GuardedArena::Access access;
    return launch();
  }

  B inner_;
};

}  // namespace kvpage_test
