/// \file A cache file counts only whole: every damage of it, and every change of the model, is found, said and repaired.
#include "packed_cache/cache_case.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <thread>

namespace kvpage_test {
namespace {

constexpr std::size_t kSmallBytes = 3000;
constexpr std::size_t kManyPieces = 5 * (std::size_t{256} << 10) + 1234;

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void overwrite(const std::filesystem::path& path, std::string_view content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

void flip(const std::filesystem::path& path, std::size_t offset, char mask) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(static_cast<std::streamoff>(offset));
  const char byte = static_cast<char>(file.get() ^ mask);
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(byte);
  REQUIRE(file.good());
}

/// The file is refused with one note that says it; what is stored then is good again.
void check_refused(CacheCase& c, PackedCache& cache, const char* what) {
  const bool restored = c.restores(cache);
  CHECK_FALSE(restored);
  const auto notes = c.take_notes();
  REQUIRE(notes.size() == 1);
  INFO(notes[0]);
  CHECK(notes[0].find(what) != std::string::npos);
  CHECK(notes[0].find(cache.path().string()) != std::string::npos);
}

}  // namespace

TEST_CASE("packed_cache.file.is_written_once_and_read_back", "[packed_cache]") {
  for (const std::size_t num_bytes : {std::size_t{1}, kSmallBytes, std::size_t{256} << 10, kManyPieces, std::size_t{70} << 20}) {
    CacheCase c(num_bytes);
    CHECK_FALSE(c.restores());
    CHECK(c.take_notes().empty());  // a first start is nothing to talk about
    c.store();
    CHECK(c.restores());
    CHECK(c.take_notes().empty());
    CHECK(c.files() == std::vector<std::string>{c.path().filename().string()});
  }
}

TEST_CASE("packed_cache.file.altered_at_any_byte_is_not_used", "[packed_cache]") {
  CacheCase c(kSmallBytes);
  c.store();
  PackedCache cache = c.cache();
  const std::string good = content_of(c.path());
  std::size_t refused = 0;
  for (std::size_t i = 0; i < good.size(); ++i) {
    const char mask = i % 2 == 0 ? '\x01' : '\xff';
    flip(c.path(), i, mask);
    refused += !c.restores(cache) && c.take_notes().size() == 1;
    flip(c.path(), i, mask);
  }
  CHECK(refused == good.size());
  CHECK(content_of(c.path()) == good);
  CHECK(c.restores(cache));
}

TEST_CASE("packed_cache.file.altered_in_any_piece_is_not_used", "[packed_cache]") {
  CacheCase c(kManyPieces);
  c.store();
  PackedCache cache = c.cache();
  const std::size_t front = std::filesystem::file_size(c.path()) - kManyPieces;
  for (std::size_t piece = 0; piece < 6; ++piece) {
    const std::size_t begin = front + piece * (std::size_t{256} << 10);
    for (const std::size_t offset : {begin, begin + 1233, begin - 1}) {
      flip(c.path(), offset, '\x10');
      check_refused(c, cache, "damaged");
      flip(c.path(), offset, '\x10');
    }
  }
  CHECK(c.restores(cache));
  flip(c.path(), front + 7, '\x10');
  CHECK_FALSE(c.restores(cache));
  c.store();
  CHECK(c.restores(cache));
}

TEST_CASE("packed_cache.file.of_any_other_length_is_not_used", "[packed_cache]") {
  CacheCase c(kSmallBytes);
  c.store();
  PackedCache cache = c.cache();
  const std::string good = content_of(c.path());
  for (std::size_t length = 0; length < good.size(); length += length < 200 ? 1 : 61) {
    overwrite(c.path(), std::string_view(good).substr(0, length));
    check_refused(c, cache, "bytes instead of");
  }
  overwrite(c.path(), good + "x");
  check_refused(c, cache, "bytes instead of");
  overwrite(c.path(), good);
  CHECK(c.restores(cache));
}

TEST_CASE("packed_cache.file.of_another_layout_or_isa_is_not_used", "[packed_cache]") {
  CacheCase c(kSmallBytes);
  c.store();
  auto key = c.key();
  key.layout.high += 1;
  PackedCache other_layout(key, c.model.gguf(), c.work);
  CHECK(other_layout.path() == c.path());
  check_refused(c, other_layout, "another layout");
  key = c.key();
  key.isa = "other-isa";
  PackedCache other_isa(key, c.model.gguf(), c.work);
  CHECK(other_isa.path() != c.path());
  CHECK_FALSE(c.restores(other_isa));
  TinyModel other;
  other.seed = 99;
  const TinyFile other_file{other};
  CHECK(PackedCache(c.key(), other_file.gguf(), c.work).path() != c.path());
}

TEST_CASE("packed_cache.model.changed_at_any_place_is_found", "[packed_cache]") {
  CacheCase c(kSmallBytes);
  c.store();
  // Between the first and the last KiB of a tensor, where the digest that names the cache file does not look.
  const kvpage::engine::GgufTensor* tensor = c.model.gguf().find_tensor("token_embd.weight");
  REQUIRE(tensor->data.size() > 4096);
  const auto offset = static_cast<std::size_t>(tensor->data.data() - c.model.gguf().part(0).bytes().data()) + 2000;
  struct stat before {};
  REQUIRE(::stat(c.model.path().c_str(), &before) == 0);
  flip(c.model.path(), offset, '\x01');
  const timespec times[2] = {before.st_atim, before.st_mtim};
  REQUIRE(::utimensat(AT_FDCWD, c.model.path().c_str(), times, 0) == 0);  // as a careless copy would leave it
  const auto opened = kvpage::engine::Gguf::open(c.model.path());
  REQUIRE(opened);
  PackedCache cache(c.key(), *opened, c.work);
  REQUIRE(cache.path() == c.path());
  check_refused(c, cache, "model file has changed");
  cache.store(c.panels);
  CHECK(c.restores(cache));
  CHECK(c.take_notes().empty());
}

TEST_CASE("packed_cache.model.changed_while_it_is_packed_is_not_stored", "[packed_cache]") {
  CacheCase c(kSmallBytes);
  PackedCache cache = c.cache();
  CHECK_FALSE(c.restores(cache));
  flip(c.model.path(), std::filesystem::file_size(c.model.path()) - 1, '\x01');
  cache.store(c.panels);
  const auto notes = c.take_notes();
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].find("changed while it was loaded") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(c.path()));
}

TEST_CASE("packed_cache.model.is_read_only_if_its_stamp_does_not_tell", "[packed_cache]") {
  CacheCase c(kSmallBytes);
  c.store();
  const auto hashed = [&](const std::filesystem::path& model) {
    const auto opened = kvpage::engine::Gguf::open(model);
    REQUIRE(opened);
    PackedCache cache(c.key(), *opened, c.work);
    c.stages.clear();
    CHECK(c.restores(cache));
    CHECK(c.take_notes().empty());
    return std::count(c.stages.begin(), c.stages.end(), "hashing") > 0;
  };
  CHECK(hashed(c.model.path()));  // written a moment ago
  std::this_thread::sleep_for(std::chrono::milliseconds(3200));
  CHECK(hashed(c.model.path()));  // and from then on known
  CHECK_FALSE(hashed(c.model.path()));
  CHECK_FALSE(hashed(c.model.path()));
  std::filesystem::last_write_time(c.model.path(), std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  CHECK(hashed(c.model.path()));
}

}  // namespace kvpage_test
