/// \file AlignedBytes: where it starts, how much it is, what it holds; and words of entropy, which differ.
#include "support/catch.hpp"

#include <kvpage/base/aligned_bytes.hpp>
#include <kvpage/base/entropy.hpp>

#include <set>
#include <utility>
#include <vector>

using namespace kvpage;

TEST_CASE("base.aligned_bytes.starts_at_a_multiple_of_its_alignment_and_belongs_to_one", "[base]") {
  std::vector<AlignedBytes> all;
  for (std::int64_t size = 0; size < 200; ++size) {
    all.emplace_back(size, std::byte{7});
    CHECK(all.back().size() == size);
    const auto span = all.back().span();
    REQUIRE(std::ssize(span) == size);
    CHECK(reinterpret_cast<std::uintptr_t>(span.data()) % AlignedBytes::kAlignment == 0);
    CHECK(std::all_of(span.begin(), span.end(), [](std::byte b) { return b == std::byte{7}; }));
  }
  const std::byte* start = all[5].span().data();
  const AlignedBytes taken = std::move(all[5]);
  CHECK(taken.span().data() == start);
  CHECK(AlignedBytes().span().empty());
}

TEST_CASE("base.entropy.no_word_comes_twice", "[base]") {
  std::set<std::uint64_t> words;
  for (int i = 0; i < 64; ++i) words.insert(draw_entropy());
  CHECK(words.size() == 64);
}
