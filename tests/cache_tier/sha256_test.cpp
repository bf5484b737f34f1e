#include "support/catch.hpp"

#include <kvpage/base/sha256.hpp>

#include <string>
#include <string_view>

namespace {

using kvpage::Sha256;
using kvpage::Sha256Digest;

constexpr Sha256Digest digest_of(std::string_view text) {
  Sha256 hash;
  for (const char c : text) {
    const std::byte one[1] = {static_cast<std::byte>(c)};
    hash.bytes(one);
  }
  return hash.finish();
}

constexpr unsigned digit(char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10); }

constexpr Sha256Digest from_hex(std::string_view hex) {
  Sha256Digest digest{};
  for (std::size_t i = 0; i < digest.size(); ++i) digest[i] = static_cast<std::byte>(digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
  return digest;
}

// Messages of the examples to FIPS 180-4 and of its 2001 predecessor; at compile time, as the whole class is constexpr.
static_assert(digest_of("abc") == from_hex("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
static_assert(digest_of("") == from_hex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));

}  // namespace

TEST_CASE("cache_tier.sha256.standard_vectors", "[cache_tier]") {
  CHECK(digest_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        from_hex("248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"));
  CHECK(digest_of("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu") ==
        from_hex("cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"));
  CHECK(digest_of(std::string(1'000'000, 'a')) == from_hex("cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"));
}

// Digest of the digests of 0..129 bytes "a": every fill of the last block, and both places where the length can go.
// From Python: h = sha256(); [h.update(sha256(b"a" * n).digest()) for n in range(130)]; h.hexdigest()
TEST_CASE("cache_tier.sha256.every_length_around_the_block", "[cache_tier]") {
  Sha256 all;
  for (std::size_t n = 0; n < 130; ++n) all.bytes(digest_of(std::string(n, 'a')));
  CHECK(all.finish() == from_hex("39a48225ae6069c68f7c9f867bf47f4a2e188c3903dd919926b8259a73ecada5"));
}

TEST_CASE("cache_tier.sha256.numbers_are_little_endian", "[cache_tier]") {
  CHECK(Sha256{}.u16(0x6261).u32(0x66656463).finish() == digest_of("abcdef"));
}
