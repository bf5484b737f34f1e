#include "cache_alloc/allocator_fixture.hpp"
#include "support/catch.hpp"
#include "support/environment.hpp"

#include <kvpage/cache/portable_key.hpp>

#include <nlohmann/json.hpp>

#include <fstream>
#include <string>

namespace {

using namespace kvpage;
using kvpage_test::Tokens;
using nlohmann::json;
using Bytes = std::vector<std::byte>;

const json& vectors() {
  static const json all = [] {
    std::ifstream file(kvpage_test::data_dir() / "portable_keys.json");
    return json::parse(file);
  }();
  return all;
}

Bytes from_hex(const std::string& hex) {
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

Sha256Digest digest_from(const json& hex) {
  const Bytes bytes = from_hex(hex);
  Sha256Digest digest{};
  REQUIRE(bytes.size() == digest.size());
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

std::uint64_t word_at(const Bytes& bytes, std::size_t at) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < 8 && at + i < bytes.size(); ++i) word |= std::to_integer<std::uint64_t>(bytes[at + i]) << (8 * i);
  return word;
}

PrefixKey prefix_key_from(const json& hex) {
  const Bytes bytes = from_hex(hex);
  return {word_at(bytes, 0), word_at(bytes, 8)};
}

SipSecret secret_from(const json& hex) {
  const PrefixKey words = prefix_key_from(hex);
  return SipSecret::fixed(words.lo, words.hi);
}

/// The fields of a vector, with their bytes.
struct Fields {
  explicit Fields(const json& vector) {
    for (const json& field : vector) bytes.push_back(from_hex(field["bytes"]));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      fields.push_back({static_cast<NamespaceFieldType>(vector[i]["type"].get<std::uint16_t>()), bytes[i]});
    }
  }
  std::vector<Bytes> bytes;
  std::vector<NamespaceField> fields;
};

std::vector<PortableExtra> extras_from(const json& extras) {
  std::vector<PortableExtra> out;
  for (const json& e : extras) {
    out.push_back({e["type"].get<std::uint16_t>(), e["offset"].get<std::uint32_t>(), digest_from(e["digest"])});
  }
  return out;
}

void check_vector(const json& vector) {
  INFO(vector["name"].get<std::string>());
  const Fields fields{vector["fields"]};
  PortableKey key = portable_root_key(vector["block_size"].get<std::int64_t>(), fields.fields).value();
  CHECK(key.bytes == digest_from(vector["root"]));
  for (const json& block : vector["blocks"]) {
    const auto tokens = block["tokens"].get<Tokens>();
    key = portable_block_key(key, tokens, extras_from(block["extras"]));
    CHECK(key.bytes == digest_from(block["key"]));
  }
}

/// SipHash of bytes, by words.
template <class Hash>
PrefixKey hash_bytes(Hash hash, const Bytes& message) {
  std::size_t i = 0;
  for (; i + 8 <= message.size(); i += 8) hash.word(word_at(message, i));
  return hash.finish(word_at(message, i), message.size() - i);
}

}  // namespace

TEST_CASE("cache_tier.portable_key.agrees_with_the_python_writer", "[cache_tier]") {
  REQUIRE(vectors()["published"].size() == 20);
  for (const json& vector : vectors()["published"]) check_vector(vector);
  REQUIRE(vectors()["random"].size() == 80);
  for (const json& vector : vectors()["random"]) check_vector(vector);
}

TEST_CASE("cache_tier.siphash.agrees_with_the_python_writer", "[cache_tier]") {
  for (const json& v : vectors()["siphash_2_4"]) {
    CHECK(hash_bytes(SipHash128<2, 4>{secret_from(v["key"])}, from_hex(v["message"])) == prefix_key_from(v["hash"]));
  }
  for (const json& v : vectors()["siphash_1_3"]) {
    CHECK(hash_bytes(SipHash128<1, 3>{secret_from(v["key"])}, from_hex(v["message"])) == prefix_key_from(v["hash"]));
  }
  REQUIRE(vectors()["prefix_keys"].size() == 40);
  for (const json& v : vectors()["prefix_keys"]) {
    const auto tokens = v["tokens"].get<Tokens>();
    CHECK(SipHash13{secret_from(v["secret"])}(prefix_key_from(v["parent"]), v["extra"], tokens) == prefix_key_from(v["key"]));
  }
}

TEST_CASE("cache_tier.portable_key.field_order_does_not_count_and_bad_fields_are_refused", "[cache_tier]") {
  const Bytes a(3, std::byte{1});
  const Bytes b(2, std::byte{2});
  const NamespaceField forward[] = {{NamespaceFieldType::kSalt, a}, {NamespaceFieldType::kUser, b}};
  const NamespaceField backward[] = {{NamespaceFieldType::kUser, b}, {NamespaceFieldType::kSalt, a}};
  CHECK(portable_root_key(16, forward).value() == portable_root_key(16, backward).value());
  const NamespaceField twice[] = {{NamespaceFieldType::kSalt, a}, {NamespaceFieldType::kSalt, b}};
  CHECK(portable_root_key(16, twice).error().kind == CacheRefusalKind::kBadNamespace);
  const Bytes long_field(257);
  const NamespaceField too_long[] = {{NamespaceFieldType::kSalt, long_field}};
  CHECK(portable_root_key(16, too_long).error() == CacheRefusal{CacheRefusalKind::kBadNamespace, 257, 256});
}

namespace {
using Allocator = BlockAllocator<PrefixIndex<>>;
using Fixture = kvpage_test::AllocatorFixture<Allocator>;

Allocator::IndexOptions options_with_keys(bool on) {
  Allocator::IndexOptions options{SipSecret::fixed(1, 2)};
  options.portable_keys = on;
  return options;
}
const BlockAllocatorConfig kConfig{.num_blocks = 16, .block_size = 4, .max_seqs = 4};
}  // namespace

TEST_CASE("cache_tier.portable_key.index_names_what_it_publishes", "[cache_tier]") {
  Fixture cache{kConfig, options_with_keys(true)};
  const Bytes model(5, std::byte{7});
  const NamespaceField fields[] = {{NamespaceFieldType::kModel, model}};
  const NamespaceId name_space = cache->intern(fields).value();
  const Tokens tokens = kvpage_test::tokens_from(100, 8);
  auto txn = cache->begin();
  const SeqId seq = txn->create(name_space).value();
  txn->grow(seq, 8).value();
  txn->commit().value();
  const PortableExtra picture{.type = 1, .offset = 4, .digest = portable_root_key(4, {}).value().bytes};
  const BlockExtra extras[] = {{1, 77, {&picture, 1}}};
  cache->publish(seq, {.tokens = tokens, .extras = extras}).value();
  cache->check_invariants();

  const PrefixHit hit = cache->match({.name_space = name_space, .tokens = tokens, .extras = extras});
  REQUIRE(hit.num_tokens == 8);
  const PortableKey root = portable_root_key(4, fields).value();
  CHECK(cache->index().portable_key(name_space.value) == root);
  CHECK(cache->index().portable_key(0) == portable_root_key(4, {}).value());
  const PortableKey first = portable_block_key(root, std::span{tokens}.first(4));
  CHECK(cache->index().portable_key(hit.node) == portable_block_key(first, std::span{tokens}.last(4), {&picture, 1}));
}

TEST_CASE("cache_tier.portable_key.an_extra_without_portable_terms_has_no_name_nor_what_builds_on_it", "[cache_tier]") {
  Fixture cache{kConfig, options_with_keys(true)};
  const Tokens tokens = kvpage_test::tokens_from(0, 12);
  auto txn = cache->begin();
  const SeqId seq = txn->create().value();
  txn->grow(seq, 12).value();
  txn->commit().value();
  const BlockExtra extras[] = {{1, 77}};
  cache->publish(seq, {.tokens = tokens, .extras = extras}).value();
  cache->check_invariants();
  for (const std::int64_t length : {4, 8, 12}) {
    const PrefixHit hit = cache->match({.tokens = tokens, .max_tokens = length, .extras = extras});
    REQUIRE(hit.num_tokens == length);
    CHECK(cache->index().portable_key(hit.node).named() == (length == 4));
  }
}

TEST_CASE("cache_tier.portable_key.off_costs_no_memory", "[cache_tier]") {
  const std::size_t off = Allocator::required_bytes(kConfig, options_with_keys(false));
  const std::size_t on = Allocator::required_bytes(kConfig, options_with_keys(true));
  const std::int64_t num_nodes = 256 + 16 + 4 + 1;  // namespaces, and 1.25 blocks
  CHECK(static_cast<std::int64_t>(on - off) >= 32 * num_nodes);
  CHECK(static_cast<std::int64_t>(on - off) < 32 * num_nodes + 64);
  Fixture cache{kConfig, options_with_keys(false)};
  CHECK_FALSE(cache->index().portable_keys());
}
