/// \file Every type of metadata value is read back as written, and a wrong type or a missing key is named.
#include "engine/loader/gguf.hpp"
#include "loader/crafted_files.hpp"
#include "loader/temp_dir.hpp"
#include "support/catch.hpp"

#include <cmath>
#include <limits>

namespace kvpage_test {
namespace {

using namespace kvpage::engine;

Gguf open_written(const GgufWriter& writer) {
  const TempDir dir;  // the map outlives the file's name
  writer.write(dir / "model.gguf");
  auto opened = Gguf::open(dir / "model.gguf");
  if (!opened) FAIL(opened.error().to_string());
  return std::move(*opened);
}

template <class T>
void check_number(T value) {
  const Gguf model = open_written(right_file().number("n", value));
  INFO("value " << +value);
  CHECK(*model.get<T>("n") == value);
  CHECK(model.get<std::int64_t>("n").has_value() == kvpage::checked_cast<std::int64_t>(value).has_value());
  CHECK(model.get<std::uint8_t>("n").has_value() == kvpage::checked_cast<std::uint8_t>(value).has_value());
  CHECK(*model.get<float>("n") == static_cast<float>(value));
  CHECK(model.get<bool>("n").has_value() == (value == 0 || value == 1));
  CHECK_FALSE(model.get<std::string_view>("n"));
}

}  // namespace

TEST_CASE("loader.values.integers_of_every_width_are_taken_if_they_fit", "[loader]") {
  check_number<std::uint8_t>(200);
  check_number<std::int8_t>(-100);
  check_number<std::uint16_t>(60'000);
  check_number<std::int16_t>(-30'000);
  check_number<std::uint32_t>(4'000'000'000u);
  check_number<std::int32_t>(-2'000'000'000);
  check_number<std::uint64_t>(std::numeric_limits<std::uint64_t>::max());
  check_number<std::int64_t>(std::numeric_limits<std::int64_t>::min());
}

TEST_CASE("loader.values.floats_bools_and_texts", "[loader]") {
  GgufWriter writer = right_file();
  writer.number("f", 1.5f).number("d", 2.5).number("yes", true).number("no", false).text("t", std::string_view{"a\0b", 3});
  const Gguf model = open_written(writer);
  CHECK(*model.get<float>("f") == 1.5f);
  CHECK(*model.get<float>("d") == 2.5f);
  CHECK(*model.get<bool>("yes"));
  CHECK_FALSE(*model.get<bool>("no"));
  CHECK(*model.get<std::string_view>("t") == std::string_view("a\0b", 3));
  CHECK(*model.get<std::string_view>("general.architecture") == "llama");
}

TEST_CASE("loader.values.a_number_is_read_from_every_type_that_states_it", "[loader]") {
  GgufWriter writer = right_file();
  writer.number("whole", 2048.0f).number("wide", -3.0).number("half", 0.5f).number("huge", 0x1p80).number("nan", std::nan(""));
  writer.number("yes", true).number("one", std::uint8_t{1}).number("zero", 0.0f).number("two", std::int32_t{2});
  writer.numbers<bool>("flags", {true, false}).numbers<std::uint16_t>("ones", {1, 0}).numbers<float>("wholes", {3.0f, -4.0f});
  const Gguf model = open_written(writer);
  CHECK(*model.get<std::uint32_t>("whole") == 2048);
  CHECK(*model.get<std::int8_t>("wide") == -3);
  CHECK_FALSE(model.get<std::uint8_t>("wide"));
  for (const char* key : {"half", "huge", "nan", "general.architecture"}) {
    INFO(key);
    CHECK_FALSE(model.get<std::int64_t>(key));
    CHECK_FALSE(model.get<bool>(key));
  }
  CHECK(*model.get<std::uint32_t>("yes") == 1);
  CHECK(*model.get<float>("yes") == 1.0f);
  CHECK(*model.get<bool>("one"));
  CHECK_FALSE(*model.get<bool>("zero"));
  CHECK_FALSE(model.get<bool>("two"));
  CHECK((*model.get<GgufNumbers<std::int32_t>>("flags"))[0] == 1);
  CHECK((*model.get<GgufNumbers<bool>>("ones"))[0]);
  CHECK((*model.get<GgufNumbers<std::int64_t>>("wholes"))[1] == -4);
}

TEST_CASE("loader.values.arrays_of_arrays_are_passed_by", "[loader]") {
  const auto nested = [](int depth) {
    std::string bytes;  // depth - 1 arrays of one array each, then three bytes
    for (int i = 1; i < depth; ++i) put(bytes, kGgufArray), put(bytes, std::uint64_t{1});
    put(bytes, gguf_type_number<std::uint8_t>()), put(bytes, std::uint64_t{3});
    return bytes + "abc";
  };
  const Gguf model = open_written(right_file().raw("nested", kGgufArray, nested(16)).number("behind", std::uint32_t{5}));
  CHECK(*model.get<std::uint32_t>("behind") == 5);
  CHECK_FALSE(model.get<GgufNumbers<std::uint8_t>>("nested"));
  CHECK_FALSE(model.get<GgufStrings>("nested"));
  CHECK(model.get<std::uint32_t>("nested").error().found == "a value of type array of array");

  const TempDir dir;
  right_file().raw("nested", kGgufArray, nested(17)).write(dir / "deep.gguf");
  const auto deep = Gguf::open(dir / "deep.gguf");
  REQUIRE_FALSE(deep);
  CHECK(deep.error().item == "key 'nested'");
  CHECK(deep.error().hint.find("limits") != std::string::npos);
}

TEST_CASE("loader.values.the_alignment_may_be_of_any_integer_type", "[loader]") {
  GgufWriter writer = right_file();
  writer.alignment = 64;
  writer.number("general.alignment", std::uint64_t{64});
  CHECK(open_written(writer).find_tensor("second")->data.size() == 108);
}

TEST_CASE("loader.values.arrays_are_views", "[loader]") {
  GgufWriter writer = right_file();
  writer.numbers<std::uint8_t>("small", {1, 2, 255}).numbers<std::int32_t>("signed", {-1, 5}).numbers<double>("doubles", {0.5, -4});
  writer.numbers<std::int32_t>("none", {}).texts("no_texts", {}).numbers<bool>("bools", {true, false});
  const Gguf model = open_written(writer);

  const auto small = model.get<GgufNumbers<std::int32_t>>("small");
  REQUIRE(small);
  CHECK(small->size() == 3);
  CHECK((*small)[2] == 255);
  CHECK((*model.get<GgufNumbers<std::int64_t>>("signed"))[0] == -1);
  CHECK_FALSE(model.get<GgufNumbers<std::uint32_t>>("signed"));
  CHECK((*model.get<GgufNumbers<float>>("signed"))[0] == -1.0f);
  CHECK_FALSE(model.get<GgufNumbers<bool>>("signed"));
  CHECK_FALSE(model.get<GgufNumbers<std::int32_t>>("doubles"));
  CHECK((*model.get<GgufNumbers<float>>("doubles"))[1] == -4.0f);
  CHECK((*model.get<GgufNumbers<bool>>("bools"))[0]);
  CHECK_FALSE((*model.get<GgufNumbers<bool>>("bools"))[1]);
  CHECK(model.get<GgufNumbers<float>>("none")->size() == 0);

  const auto texts = model.get<GgufStrings>("tokenizer.ggml.tokens");
  REQUIRE(texts);
  CHECK(texts->size() == 3);
  CHECK(std::vector<std::string_view>(texts->begin(), texts->end()) == std::vector<std::string_view>{"a", "bc", ""});
  const auto none = model.get<GgufStrings>("no_texts");
  REQUIRE(none);
  CHECK(none->begin() == none->end());
}

TEST_CASE("loader.values.wrong_type_and_missing_key_are_named", "[loader]") {
  const Gguf model = open_written(right_file().number("big", std::uint64_t{1} << 40).number("negative", std::int32_t{-7}));
  const auto text_wanted = model.get<std::string_view>("llama.block_count");
  REQUIRE_FALSE(text_wanted);
  CHECK(text_wanted.error().item == "key 'llama.block_count'");
  CHECK(text_wanted.error().wanted == "a string");
  CHECK(text_wanted.error().found == "a value of type u32 with value 2");
  CHECK(model.get<std::uint32_t>("big").error().found == "a value of type u64 with value 1099511627776");
  CHECK(model.get<std::uint32_t>("negative").error().found == "a value of type i32 with value -7");
  CHECK(model.get<float>("tokenizer.ggml.tokens").error().found == "a value of type array of string");
  CHECK(model.get<std::uint32_t>("tokenizer.ggml.scores").error().found == "a value of type array of float");
  CHECK(model.get<GgufStrings>("tokenizer.ggml.scores").error().wanted == "an array of strings");

  const auto missing = model.get<float>("no.such.key");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().item == "key 'no.such.key'");
  CHECK(missing.error().found == "no such key");
  const auto optional = model.find<float>("no.such.key");
  REQUIRE(optional);
  CHECK_FALSE(optional->has_value());
  CHECK_FALSE(model.find<float>("general.architecture"));
}

TEST_CASE("loader.tensors.are_found_with_shape_format_and_data", "[loader]") {
  for (const std::uint32_t alignment : {8u, 32u, 64u, 65'536u}) {
    GgufWriter writer = right_file();
    writer.version = alignment == 8 ? 2 : 3;
    writer.alignment = alignment;
    if (alignment != 32) writer.number("general.alignment", alignment);
    writer.tensor("cube", {2, 3, 4, 5}, 0, std::string(480, '\7'));
    const Gguf model = open_written(writer);
    INFO("alignment " << alignment);
    CHECK(model.version() == writer.version);
    REQUIRE(model.tensors().size() == 4);
    const GgufTensor* second = model.find_tensor("second");
    REQUIRE(second != nullptr);
    CHECK(second->row_length() == 64);
    CHECK(second->num_rows() == 3);
    CHECK(second->shape_text() == "[64, 3]");
    CHECK(second->format->name == "Q4_0");
    CHECK(as_text(second->data) == std::string(108, '\2'));
    CHECK(second->view().row_bytes == 36);
    CHECK(model.find_tensor("cube")->num_elements() == 120);
    CHECK(model.find_tensor("cube")->num_dims == 4);
    CHECK(model.find_tensor("secon") == nullptr);
    CHECK(model.find_tensor("") == nullptr);
    CHECK(model.tensors()[0].name == "first");
  }
}

TEST_CASE("loader.gguf.a_file_of_metadata_alone_opens", "[loader]") {
  GgufWriter writer;
  writer.text("general.architecture", "llama");
  CHECK(open_written(writer).tensors().empty());
  CHECK(open_written(GgufWriter{}).metadata().empty());
}

}  // namespace kvpage_test
