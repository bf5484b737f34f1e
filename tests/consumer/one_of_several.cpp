/// \file Compiled several times with other versions and assert levels of kvpage and linked into one program.
#include <kvpage/cache/block_allocator.hpp>

#include <vector>

/// KVPAGE_UNIT is another name in each object. Returns 100 * the minor version + the blocks that 40 tokens take (3).
int KVPAGE_UNIT() {
  using Allocator = kvpage::BlockAllocator<kvpage::NoIndex>;
  const kvpage::BlockAllocatorConfig config{.num_blocks = 8, .block_size = 16, .max_seqs = 1};
  std::vector<std::byte> memory(Allocator::required_bytes(config));
  Allocator allocator{config, memory};
  auto plan = allocator.begin().value();
  const auto seq = plan.create().value();
  plan.grow(seq, 40).value();
  plan.commit().value();
  return 100 * KVPAGE_VERSION_MINOR + static_cast<int>(allocator.table(seq).blocks.size());
}
