/// \file Every class of wrong GGUF file gets an error that names it, costs no memory, and leaves nothing open (bug B38).
#include "engine/loader/gguf.hpp"
#include "support/allocation_count.hpp"
#include "loader/crafted_files.hpp"
#include "loader/streaming_gguf_reader.hpp"
#include "loader/temp_dir.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

namespace kvpage_test {
namespace {

using kvpage::engine::Gguf;

constexpr std::size_t kAllowedBytes = 16u << 20;

bool streaming_accepts(const std::string& bytes) {
  std::istringstream stream{bytes};
  return StreamingGgufReader::verdict(stream).empty();
}

/// True if this process holds a map of the file.
bool still_mapped(const std::filesystem::path& path) {
  std::ifstream maps{"/proc/self/maps"};
  std::string line;
  while (std::getline(maps, line)) {
    if (line.find(path.filename().string()) != std::string::npos) return true;
  }
  return false;
}

void require_refused(const std::vector<CraftedFile>& files) {
  const TempDir dir;
  for (const CraftedFile& file : files) {
    INFO("crafted file: " << file.slug);
    const std::filesystem::path path = dir / (file.slug + ".gguf");
    GgufWriter::write_file(path, file.bytes);
    const std::size_t before = allocated_bytes();
    const auto opened = Gguf::open(path);
    const std::size_t used = allocated_bytes() - before;
    REQUIRE_FALSE(opened);
    INFO(opened.error().to_string());
    CHECK(opened.error().file == path.string());
    CHECK(opened.error().item.find(file.item) != std::string::npos);
    CHECK(opened.error().found.find(file.found) != std::string::npos);
    CHECK_FALSE(opened.error().wanted.empty());
    CHECK_FALSE(opened.error().hint.empty());
    const std::string text = opened.error().to_string();
    CHECK(std::count(text.begin(), text.end(), '\n') == 2);
    CHECK(used <= file.bytes.size() + kAllowedBytes);
    CHECK_FALSE(still_mapped(path));
    CHECK_FALSE(streaming_accepts(file.bytes));
  }
}

}  // namespace

TEST_CASE("bug.B38.preamble_faults_are_named", "[loader]") { require_refused(crafted_preambles()); }
TEST_CASE("bug.B38.metadata_faults_are_named", "[loader]") { require_refused(crafted_metadata()); }
TEST_CASE("bug.B38.shape_faults_are_named", "[loader]") { require_refused(crafted_shapes()); }
TEST_CASE("bug.B38.place_faults_are_named", "[loader]") { require_refused(crafted_places()); }

TEST_CASE("loader.crafted.at_least_60_different_classes", "[loader]") {
  std::set<std::string> slugs;
  std::set<std::string> contents;
  for (const auto& files : {crafted_preambles(), crafted_metadata(), crafted_shapes(), crafted_places()}) {
    for (const CraftedFile& file : files) {
      CHECK(slugs.insert(file.slug).second);
      CHECK(contents.insert(file.bytes).second);
    }
  }
  CHECK(slugs.size() >= 60);
}

TEST_CASE("loader.crafted.the_right_file_is_accepted_by_both_readers", "[loader]") {
  const TempDir dir;
  right_file().write(dir / "right.gguf");
  const auto opened = Gguf::open(dir / "right.gguf");
  REQUIRE(opened);
  CHECK(opened->tensors().size() == 3);
  CHECK(streaming_accepts(right_file().bytes()));
}

}  // namespace kvpage_test
