#include "cache_tier/tier_fixture.hpp"
#include "support/catch.hpp"

#include <kvpage/cache/file_tier_store.hpp>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

namespace {

using namespace kvpage;
using namespace kvpage_test;
namespace fs = std::filesystem;
using Kind = TierRefusalKind;
using Tier = TierFixture<FileTierStore>;

constexpr int kNumSlots = 4;
constexpr OffloadTierConfig kConfig{.num_slots = kNumSlots, .page_bytes = 100, .block_size = 4, .layout_id = 11};
constexpr std::int64_t kHeaderBytes = 128;  // 80 + 4 * 4 tokens + 16, in steps of 64
constexpr std::int64_t kSlotBytes = kHeaderBytes + 100;
constexpr std::int64_t kMeaningBytes = 112;  // of the header; the rest is filling

/// A file name of this process that is gone at the end.
class TierFile {
 public:
  TierFile() : path_(fs::temp_directory_path() / ("kvpage_tier_" + std::to_string(::getpid()))) { fs::remove(path_); }
  ~TierFile() { fs::remove(path_); }
  TierFile(const TierFile&) = delete;
  TierFile& operator=(const TierFile&) = delete;

  const fs::path& path() const { return path_; }
  Tier open(const OffloadTierConfig& config = kConfig) const { return Tier{config, FileTierStore{path_.c_str(), 1 << 20}}; }

  std::string read() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& bytes) const {
    std::ofstream file(path_, std::ios::binary | std::ios::trunc);
    file << bytes;
    REQUIRE(file.flush());
  }
  /// Four contents 0..3, pages of the same versions, in slots 0..3.
  std::string fill() const {
    fs::remove(path_);
    Tier tier = open();
    for (int n = 0; n < kNumSlots; ++n) REQUIRE(tier.store(n, n) == static_cast<std::uint32_t>(n));
    return read();
  }

 private:
  fs::path path_;
};

std::vector<std::byte> page(int version) { return page_bytes(100, version); }

/// Which of the contents a fresh start finds and loads; what it loads is what was stored.
std::vector<int> survivors(Tier tier) {
  std::vector<int> loaded;
  for (int n = 0; n < kNumSlots; ++n) {
    const std::uint32_t slot = tier.find(n);
    if (slot == kNoTierSlot) continue;
    const auto got = tier.load(slot);
    if (got) REQUIRE(got.value() == page(n));
    if (got) loaded.push_back(n);
    REQUIRE((got.has_value() || tier.find(n) == kNoTierSlot));
  }
  tier->check_invariants();
  return loaded;
}

const std::vector<int> kAll{0, 1, 2, 3};
std::vector<int> all_but(int n) {
  std::vector<int> rest = kAll;
  rest.erase(rest.begin() + n);
  return rest;
}

}  // namespace

TEST_CASE("cache_tier.file.content_survives_a_restart", "[cache_tier]") {
  TierFile file;
  CHECK(std::ssize(file.fill()) == kNumSlots * kSlotBytes);
  CHECK(survivors(file.open()) == kAll);
  {
    Tier tier = file.open();
    tier.get().drop(tier.find(2)).value();
    const Tokens tokens = tokens_from(9, 4);
    const auto demotion = tier->reserve({key_of(9), tokens});  // takes the free slot; the process ends before the transfer
    CHECK(demotion->slot == 2);
  }
  CHECK(survivors(file.open()) == all_but(2));
}

TEST_CASE("cache_tier.file.a_header_has_its_fields_where_they_are_said_to_be", "[cache_tier]") {
  TierFile file;
  const std::string bytes = file.fill();
  REQUIRE(std::ssize(bytes) >= kNumSlots * kSlotBytes);
  for (int slot = 0; slot < kNumSlots; ++slot) {
    const auto number = [&](std::int64_t at, int width) {  // little endian
      std::uint64_t x = 0;
      while (width-- > 0) x = x << 8 | static_cast<unsigned char>(bytes[static_cast<std::size_t>(slot * kSlotBytes + at + width)]);
      return static_cast<std::int64_t>(x);
    };
    CHECK(bytes.substr(static_cast<std::size_t>(slot * kSlotBytes), 8) == "kvptier1");
    CHECK((number(8, 8) == 11 && number(16, 8) == 100 && number(24, 4) == 0 && number(28, 4) == 4));
    for (int i = 0; i < 4; ++i) CHECK(number(80 + 4 * i, 4) == slot + i);  // the tokens of content `slot`
    for (std::int64_t at = kMeaningBytes; at < kHeaderBytes; ++at) CHECK(number(at, 1) == 0);
  }
}

TEST_CASE("cache_tier.file.every_damaged_byte_costs_its_slot_and_no_other", "[cache_tier]") {
  TierFile file;
  const std::string good = file.fill();
  for (std::int64_t i = 0; i < kSlotBytes; ++i) {
    std::string bad = good;
    const std::int64_t at = kSlotBytes + i;  // of slot 1: magic, layout, sizes, key, checksum, tokens, filling, page
    bad[static_cast<std::size_t>(at)] = static_cast<char>(bad[static_cast<std::size_t>(at)] ^ (1 << i % 8));
    file.write(bad);
    CAPTURE(i);
    const bool filling = i >= kMeaningBytes && i < kHeaderBytes;
    REQUIRE(survivors(file.open()) == (filling ? kAll : all_but(1)));
  }
}

TEST_CASE("cache_tier.file.a_cut_file_costs_the_slots_behind_the_cut", "[cache_tier]") {
  TierFile file;
  const std::string good = file.fill();
  for (std::int64_t size = 0; size <= std::ssize(good); ++size) {
    file.write(good.substr(0, static_cast<std::size_t>(size)));
    CAPTURE(size);
    const auto whole = static_cast<std::size_t>(size / kSlotBytes);
    REQUIRE(survivors(file.open()) == std::vector<int>(kAll.begin(), kAll.begin() + static_cast<std::ptrdiff_t>(whole)));
  }
}

TEST_CASE("cache_tier.file.a_file_cut_under_a_running_tier_fails_loads_and_is_written_again", "[cache_tier]") {
  TierFile file;
  static_cast<void>(file.fill());
  Tier tier = file.open();
  fs::resize_file(file.path(), kSlotBytes + kHeaderBytes + 50);
  CHECK(tier.load(0).value() == page(0));
  CHECK(tier.load(1).error() == TierRefusal{Kind::kStoreFailed, 100, 0});
  CHECK(tier.load(2).error() == TierRefusal{Kind::kStoreFailed, 100, 0});
  CHECK(tier.find(1) == kNoTierSlot);
  const std::uint32_t again = tier.store(1, 1);
  CHECK(tier.load(again).value() == page(1));
}

TEST_CASE("cache_tier.file.another_layout_shape_or_secret_reads_nothing", "[cache_tier]") {
  TierFile file;
  const std::string good = file.fill();
  OffloadTierConfig others[5];
  std::fill(std::begin(others), std::end(others), kConfig);
  others[0].layout_id = 12;
  others[1].page_bytes = 101;
  others[2].page_bytes = 100 - 64, others[2].block_size = 4 + 16;  // the slots have the same size
  others[3].block_size = 8;
  others[4].checksum_secret = SipSecret::fixed(1, 2);
  for (const OffloadTierConfig& other : others) {
    CAPTURE(&other - others);
    CHECK(file.open(other)->capacity() == TierCapacity{kNumSlots, kNumSlots, 0, 0});
    CHECK(file.read() == good);
  }
  CHECK(survivors(file.open()) == kAll);
}

TEST_CASE("cache_tier.file.one_content_in_two_slots_is_found_once", "[cache_tier]") {
  TierFile file;
  std::string bytes = file.fill();
  bytes.replace(2 * kSlotBytes, kSlotBytes, bytes.substr(0, kSlotBytes));  // slot 2 = slot 0
  file.write(bytes);
  Tier tier = file.open();
  CHECK(tier->capacity() == TierCapacity{4, 1, 3, 0});
  tier->check_invariants();
}

TEST_CASE("cache_tier.file.a_larger_file_than_the_tier_is_read_as_far_as_the_tier_goes", "[cache_tier]") {
  TierFile file;
  static_cast<void>(file.fill());
  OffloadTierConfig smaller = kConfig;
  smaller.num_slots = 2;
  CHECK(survivors(file.open(smaller)) == std::vector<int>{0, 1});
}

TEST_CASE("cache_tier.file.any_other_file_is_an_empty_tier", "[cache_tier]") {
  TierFile file;
  std::mt19937 rng{5};
  for (int i = 0; i < 50; ++i) {
    std::string bytes(rng() % 2000, '\0');
    for (char& c : bytes) c = i % 2 == 0 ? static_cast<char>(rng() >> 8) : "kvptier1"[rng() % 8];
    file.write(bytes);
    REQUIRE(file.open()->capacity() == TierCapacity{kNumSlots, kNumSlots, 0, 0});
  }
}

TEST_CASE("cache_tier.file.a_full_disk_refuses_demotions_and_nothing_else", "[cache_tier]") {
  REQUIRE(fs::exists("/dev/full"));  // every write meets a full disk; reads give zeros
  Tier tier{kConfig, FileTierStore{"/dev/full", 1 << 20}};
  const Tokens tokens = tokens_from(1, 4);
  const auto demotion = tier->reserve({key_of(1), tokens});
  CHECK(tier->demote(demotion->slot, page(1)).error() == TierRefusal{Kind::kStoreFailed, kSlotBytes, 0});
  CHECK(tier.find(1) == kNoTierSlot);
  CHECK(tier->capacity() == TierCapacity{4, 4, 0, 0});
}

TEST_CASE("cache_tier.file.a_path_that_cannot_be_a_tier_is_a_configuration_error", "[cache_tier]") {
  const auto error_of = [](const char* path, std::int64_t bytes) {
    try {
      FileTierStore store{path, bytes};
    } catch (const ConfigError& error) {
      return std::pair{std::string{error.unit()}, error.value()};
    }
    return std::pair{std::string{"none"}, std::int64_t{0}};
  };
  CHECK(error_of("/nowhere/at/all", 100) == std::pair{std::string{"errno"}, std::int64_t{ENOENT}});
  CHECK(error_of("/", 100) == std::pair{std::string{"errno"}, std::int64_t{EISDIR}});
  CHECK(error_of("/nowhere", -1) == std::pair{std::string{"bytes"}, std::int64_t{-1}});
  TierFile file;
  CHECK_THROWS_AS((Tier{kConfig, FileTierStore{file.path().c_str(), kNumSlots * kSlotBytes - 1}}), ConfigError);
}
