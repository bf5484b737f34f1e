/// \file AllocatorFixture: an allocator with its memory, and the shortest way to say common things in tests.
#pragma once

#include <kvpage/cache/block_allocator.hpp>

#include <numeric>
#include <vector>

namespace kvpage_test {

using Tokens = std::vector<kvpage::TokenId>;

inline Tokens tokens_from(kvpage::TokenId first, std::size_t count) {
  Tokens tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

template <class Allocator>
class AllocatorFixture {
 public:
  AllocatorFixture(const kvpage::BlockAllocatorConfig& config, const typename Allocator::IndexOptions& options)
      : memory_(Allocator::required_bytes(config, options)), allocator_(config, memory_, options) {}

  Allocator* operator->() { return &allocator_; }
  Allocator& get() { return allocator_; }

  /// A committed sequence of these tokens, published.
  kvpage::SeqId run(const Tokens& tokens, const kvpage::Retention& retention = {}) {
    auto txn = allocator_.begin();
    const auto seq = txn->create().value();
    const auto shared = txn->share(seq, allocator_.match({.tokens = tokens}));
    static_cast<void>(shared);
    txn->grow(seq, static_cast<std::int64_t>(tokens.size())).value();
    finish(*txn);
    allocator_.publish(seq, {.tokens = tokens, .retention = retention}).value();
    return seq;
  }
  /// A committed sequence that is not published.
  kvpage::SeqId compute(std::int64_t num_tokens) {
    auto txn = allocator_.begin();
    const auto seq = txn->create().value();
    txn->grow(seq, num_tokens).value();
    txn->commit().value();
    return seq;
  }
  void end(kvpage::SeqId seq) {
    auto txn = allocator_.begin();
    txn->release(seq).value();
    txn->commit().value();
  }
  /// Takes `count` blocks for good: evicts when it must.
  void use_up(int count) {
    auto txn = allocator_.begin();
    for (int i = 0; i < count; ++i) blocks_.push_back(txn->allocate_block().value());
    txn->commit().value();
  }
  std::int64_t hit(const Tokens& tokens) { return allocator_.match({.tokens = tokens}).num_tokens; }

 private:
  void finish(typename Allocator::Transaction& txn) {
    const auto step = txn.seal().value();
    allocator_.commit(step).value();
  }

  std::vector<std::byte> memory_;
  Allocator allocator_;
  std::vector<kvpage::BlockRef> blocks_;
};

}  // namespace kvpage_test
