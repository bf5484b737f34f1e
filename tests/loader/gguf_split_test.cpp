/// \file Models split into -00001-of-0000N parts load together, whichever part is named; a bad set names the bad part.
#include "engine/loader/gguf.hpp"
#include "engine/loader/split_name.hpp"
#include "loader/temp_dir.hpp"
#include "support/catch.hpp"
#include "support/gguf_writer.hpp"

namespace kvpage_test {
namespace {

using kvpage::engine::Gguf;
using kvpage::engine::SplitName;

std::string part_name(int part) { return "model-0000" + std::to_string(part) + "-of-00003.gguf"; }

/// What each of three parts states; tests change one thing.
struct Part {
  std::uint16_t position;
  std::uint16_t count = 3;
  std::int32_t num_tensors = 4;
  std::vector<std::string> tensors;
};

std::vector<Part> right_parts() { return {{0, 3, 4, {}}, {1, 3, 4, {"a", "b"}}, {2, 3, 4, {"c", "d"}}}; }

void write_parts(const TempDir& dir, const std::vector<Part>& parts) {
  int number = 1;
  for (const Part& part : parts) {
    GgufWriter writer;
    if (part.position == 0) writer.text("general.architecture", "llama");
    writer.number("split.no", part.position).number("split.count", part.count).number("split.tensors.count", part.num_tensors);
    for (const std::string& name : part.tensors) writer.tensor(name, {8}, 0, std::string(32, name[0]));
    writer.write(dir / part_name(number++));
  }
}

kvpage::engine::LoadError error_of(const std::vector<Part>& parts) {
  const TempDir dir;
  write_parts(dir, parts);
  const auto opened = Gguf::open(dir / part_name(1));
  REQUIRE_FALSE(opened);
  return opened.error();
}

}  // namespace

TEST_CASE("loader.split.any_part_opens_the_whole_model", "[loader]") {
  const TempDir dir;
  write_parts(dir, right_parts());
  for (const int named : {1, 2, 3}) {
    const auto opened = Gguf::open(dir / part_name(named));
    REQUIRE(opened);
    CHECK(opened->num_parts() == 3);
    REQUIRE(opened->tensors().size() == 4);
    for (const char* name : {"a", "b", "c", "d"}) {
      REQUIRE(opened->find_tensor(name) != nullptr);
      CHECK(kvpage::engine::as_text(opened->find_tensor(name)->data) == std::string(32, name[0]));
    }
    CHECK(*opened->get<std::string_view>("general.architecture") == "llama");
    std::uintmax_t bytes = 0;
    for (const int part : {1, 2, 3}) bytes += std::filesystem::file_size(dir / part_name(part));
    CHECK(opened->file_bytes() == static_cast<std::int64_t>(bytes));
  }
}

TEST_CASE("loader.split.a_missing_part_is_named", "[loader]") {
  for (const int missing : {1, 2, 3}) {
    const TempDir dir;
    write_parts(dir, right_parts());
    std::filesystem::remove(dir / part_name(missing));
    const auto opened = Gguf::open(dir / part_name(missing == 1 ? 2 : 1));
    REQUIRE_FALSE(opened);
    CHECK(opened.error().file == (dir / part_name(missing)).string());
    CHECK(opened.error().wanted == "all 3 parts");
  }
}

TEST_CASE("loader.split.a_set_that_does_not_fit_together_is_refused", "[loader]") {
  auto parts = right_parts();
  parts[1].position = 2;
  CHECK(error_of(parts).item == "key 'split.no'");
  CHECK(error_of(parts).file.find(part_name(2)) != std::string::npos);

  parts = right_parts();
  parts[2].count = 4;
  CHECK(error_of(parts).item == "key 'split.count'");
  CHECK(error_of(parts).found == "4");

  parts = right_parts();
  parts[0].num_tensors = 5;
  CHECK(error_of(parts).item == "key 'split.tensors.count'");
  parts[0].num_tensors = -1;
  CHECK(error_of(parts).item == "key 'split.tensors.count'");

  parts = right_parts();
  parts[2].tensors = {"c", "a"};
  CHECK(error_of(parts).item == "tensor 'a'");
}

TEST_CASE("loader.split.one_part_under_another_name_is_refused", "[loader]") {
  const TempDir dir;
  write_parts(dir, right_parts());
  std::filesystem::copy_file(dir / part_name(2), dir / "renamed.gguf");
  const auto opened = Gguf::open(dir / "renamed.gguf");
  REQUIRE_FALSE(opened);
  CHECK(opened.error().item == "key 'split.count'");
  CHECK(opened.error().found == "3");
}

TEST_CASE("loader.split.a_broken_part_is_named", "[loader]") {
  const TempDir dir;
  write_parts(dir, right_parts());
  std::filesystem::resize_file(dir / part_name(3), std::filesystem::file_size(dir / part_name(3)) - 1);
  const auto opened = Gguf::open(dir / part_name(1));
  REQUIRE_FALSE(opened);
  CHECK(opened.error().file == (dir / part_name(3)).string());
  CHECK(opened.error().item == "tensor 'd'");
}

TEST_CASE("loader.split.only_the_exact_name_form_is_a_part", "[loader]") {
  const auto name = SplitName::parse("dir/x-00002-of-00011.gguf");
  REQUIRE(name);
  CHECK(name->part == 1);
  CHECK(name->num_parts == 11);
  CHECK(name->part_path(10) == "dir/x-00011-of-00011.gguf");
  for (const char* other : {"x.gguf", "x-00000-of-00002.gguf", "x-00003-of-00002.gguf", "x-0001-of-00002.gguf", "-00001-of-0000.gguf",
                            "x-00001-of-00002.bin", "x-00001_of_00002.gguf", "x--0001-of-00002.gguf", "x-00001-of-0000x.gguf", ""}) {
    INFO(other);
    CHECK_FALSE(SplitName::parse(other));
  }
}

}  // namespace kvpage_test
