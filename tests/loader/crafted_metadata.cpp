/// \file Wrong preambles and wrong metadata.
#include "loader/crafted_files.hpp"

#include <cstdint>
#include <limits>

namespace kvpage_test {
namespace {

constexpr std::uint64_t kMax64 = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t k2To63 = std::uint64_t{1} << 63;

CraftedFile with_magic(const char* slug, const char* magic, const char* found) {
  GgufWriter writer = right_file();
  writer.magic = magic;
  return {slug, "magic", found, writer.bytes()};
}

CraftedFile with_version(const char* slug, std::uint32_t version) {
  GgufWriter writer = right_file();
  writer.version = version;
  return {slug, "version", std::to_string(version), writer.bytes()};
}

CraftedFile with_counts(const char* slug, std::uint64_t num_tensors, std::uint64_t num_metadata) {
  GgufWriter writer = right_file();
  const bool tensors = num_tensors != writer.tensors.size();
  writer.num_tensors = num_tensors;
  writer.num_metadata = num_metadata;
  return {slug, tensors ? "number of tensors" : "number of metadata keys", std::to_string(tensors ? num_tensors : num_metadata),
          writer.bytes()};
}

/// A file long enough for a count just above the limit.
CraftedFile above_limit(const char* slug, std::uint64_t num_tensors, std::uint64_t num_metadata) {
  CraftedFile file = with_counts(slug, num_tensors, num_metadata);
  file.bytes += std::string(5'000'000, '\0');
  return file;
}

CraftedFile with_value(const char* slug, std::uint32_t type, const std::string& value, const char* found) {
  return {slug, "key 'the.key'", found, right_file().raw("the.key", type, value).bytes()};
}

CraftedFile with_array(const char* slug, std::uint32_t type, std::uint64_t count, const std::string& elements, const char* found) {
  return {slug, "key 'the.key'", found, right_file().array("the.key", type, count, elements).bytes()};
}

CraftedFile with_key_length(const char* slug, std::uint64_t length, const std::string& key, const char* found) {
  std::string entry;
  put(entry, length);
  entry += key;
  put(entry, std::uint32_t{4});
  put(entry, std::uint32_t{1});
  return {slug, "metadata key 4", found, right_file().entry_bytes(entry).bytes()};
}

template <class T>
CraftedFile with_alignment(const char* slug, T alignment, const char* found) {
  return {slug, "key 'general.alignment'", found, right_file().number("general.alignment", alignment).bytes()};
}

std::string length_then(std::uint64_t length, const std::string& text) {
  std::string bytes;
  put(bytes, length);
  return bytes + text;
}

}  // namespace

std::vector<CraftedFile> crafted_preambles() {
  return {
      {"one_byte", "magic", "1 bytes", "G"},
      {"magic_alone", "version", "0 bytes", "GGUF"},
      {"zeros", "magic", "x00", std::string(64, '\0')},
      with_magic("magic_zip", "PK\3\4", "PK"),
      with_magic("magic_lower_case", "gguf", "gguf"),
      with_magic("magic_big_endian", "FUGG", "FUGG"),
      with_magic("magic_old_format", "tjgg", "tjgg"),
      with_version("version_0", 0),
      with_version("version_1", 1),
      with_version("version_4", 4),
      with_version("version_big_endian", 0x03000000u),
      with_version("version_max", 0xffffffffu),
      with_counts("num_tensors_2_63", k2To63, 4),
      with_counts("num_tensors_max", kMax64, 4),
      with_counts("num_tensors_beyond_file", 1000, 4),
      with_counts("num_metadata_2_63", 3, k2To63),
      with_counts("num_metadata_max", 3, kMax64),
      with_counts("num_metadata_beyond_file", 3, 1000),
      above_limit("num_tensors_above_limit", 65'537, 4),
      above_limit("num_metadata_above_limit", 3, 65'537),
  };
}

std::vector<CraftedFile> crafted_metadata() {
  GgufWriter duplicate = right_file();
  duplicate.number("llama.block_count", std::uint32_t{3});
  GgufWriter one_key_more = right_file();  // the first tensor is read as a key
  one_key_more.num_metadata = 5;
  GgufWriter one_key_less = right_file();  // the last key is read as a tensor
  one_key_less.num_metadata = 3;
  return {
      with_key_length("key_empty", 0, "", "0"),
      with_key_length("key_too_long", 65'536, std::string(65'536, 'k'), "65536"),
      with_key_length("key_length_max", kMax64, "key", "18446744073709551615"),
      with_key_length("key_beyond_file", 60'000, "key", "bytes until the end"),
      {"key_twice", "key 'llama.block_count'", "twice", duplicate.bytes()},
      {"one_key_more", "tensor entry 0", "", one_key_more.bytes()},
      {"one_key_less", "tensor 'tokenizer.ggml.scores'", "9", one_key_less.bytes()},
      with_value("value_type_13", 13, "", "13"),
      with_value("value_type_max", 0xffffffffu, "", "4294967295"),
      with_value("text_length_max", 8, length_then(kMax64, "text"), "until the end"),
      with_value("text_length_2_63", 8, length_then(k2To63, "text"), "until the end"),
      with_value("text_beyond_file", 8, length_then(100'000, "text"), "until the end"),
      with_value("bool_2", 7, "\2", "another number"),
      with_array("array_type_13", 13, 1, "x", "13"),
      with_array("array_type_max", 0xffffffffu, 1, "x", "4294967295"),
      with_array("nested_type_13", 9, 1, std::string("\xd\0\0\0", 4) + length_then(1, "x"), "13"),
      with_array("nested_count_max", 9, kMax64, "x", "18446744073709551615"),
      with_array("nested_beyond_file", 9, 1, std::string("\0\0\0\0", 4) + length_then(100'000, "x"), "100000"),
      with_array("array_count_2_62", 0, std::uint64_t{1} << 62, "x", "4611686018427387904"),
      with_array("array_count_max", 4, kMax64, "x", "18446744073709551615"),
      with_array("array_bytes_wrap", 10, (std::uint64_t{1} << 61) + 1, "12345678", "2305843009213693953"),
      with_array("array_beyond_file", 12, 1000, "x", "1000"),
      with_array("texts_count_2_62", 8, std::uint64_t{1} << 62, "x", "4611686018427387904"),
      with_array("texts_element_max", 8, 2, length_then(1, "a") + length_then(kMax64, "b"), "until the end"),
      with_array("texts_beyond_file", 8, 2, length_then(1, "a") + length_then(100'000, "b"), "until the end"),
      with_array("bools_255", 7, 3, std::string("\0\1\xff", 3), "another number"),
      with_alignment<std::uint32_t>("alignment_0", 0, "0"),
      with_alignment<std::uint32_t>("alignment_1", 1, "1"),
      with_alignment<std::uint32_t>("alignment_3", 3, "3"),
      with_alignment<std::uint32_t>("alignment_4", 4, "4"),
      with_alignment<std::uint32_t>("alignment_48", 48, "48"),
      with_alignment<std::uint32_t>("alignment_2_17", 131'072, "131072"),
      with_alignment<std::uint32_t>("alignment_2_31", 1u << 31, "2147483648"),
      with_alignment<std::uint64_t>("alignment_2_32", std::uint64_t{1} << 32, "4294967296"),
      with_alignment<float>("alignment_32_and_a_half", 32.5f, "float"),
      with_alignment<std::int32_t>("alignment_negative", -32, "i32"),
  };
}

}  // namespace kvpage_test
