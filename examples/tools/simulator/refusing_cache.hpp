/// \file RefusingCache: a BlockAllocator that refuses one request for blocks although it has them, for tests of every way out.
#pragma once

#include <kvpage/cache/block_allocator.hpp>

KVPAGE_BEGIN_NAMESPACE

/// Counts the calls that take blocks or sequences, and refuses the one that it was told.
template <class Base>
class RefusingCache : public Base {
 public:
  class Transaction : public Base::Transaction {
   public:
    using Inner = typename Base::Transaction;
    Transaction(Inner&& inner, RefusingCache& cache) noexcept : Inner(std::move(inner)), cache_(&cache) {}

    CacheResult<SeqId> create(NamespaceId name_space = NamespaceId{}) {
      if (cache_->refuses()) return detail::refuse(CacheRefusalKind::kNoSeqSlot, 1, 0);
      return Inner::create(name_space);
    }
    CacheResult<void> grow(SeqId seq, std::int64_t num_tokens) {
      if (cache_->refuses()) return detail::refuse(CacheRefusalKind::kNoBlocks, 1, 0);
      return Inner::grow(seq, num_tokens);
    }
    CacheResult<void> make_writable(SeqId seq, std::int64_t first_token, std::int64_t last_token) {
      if (cache_->refuses()) return detail::refuse(CacheRefusalKind::kNoBlocks, 1, 0);
      return Inner::make_writable(seq, first_token, last_token);
    }
    CacheResult<SeqId> fork(SeqId parent) {
      if (cache_->refuses()) return detail::refuse(CacheRefusalKind::kNoSeqSlot, 1, 0);
      return Inner::fork(parent);
    }
    CacheResult<SharedPrefix> share(SeqId seq, const PrefixHit& hit) {
      if (cache_->refuses()) return detail::refuse(CacheRefusalKind::kStaleHit, 1, 0);
      return Inner::share(seq, hit);
    }

   private:
    RefusingCache* cache_;
  };

  using Base::Base;

  CacheResult<Transaction> begin() {
    auto inner = Base::begin();
    if (!inner) return Unexpected{inner.error()};
    return Transaction{std::move(*inner), *this};
  }

  /// Refuses the call after `calls` more; negative = never.
  void refuse_after(std::int64_t calls) noexcept { calls_left_ = calls; }
  [[nodiscard]] std::int64_t num_refused() const noexcept { return num_refused_; }

 private:
  [[nodiscard]] bool refuses() noexcept {
    if (calls_left_ < 0 || calls_left_-- > 0) return false;
    ++num_refused_;
    return true;
  }

  std::int64_t calls_left_ = -1;
  std::int64_t num_refused_ = 0;
};

KVPAGE_END_NAMESPACE
