/// \file Wrong tensor entries and wrong places of tensor data.
#include "loader/crafted_files.hpp"

#include <cstdint>
#include <limits>
#include <utility>

namespace kvpage_test {
namespace {

constexpr std::uint64_t kMax64 = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t k2To63 = std::uint64_t{1} << 63;

/// The right file with a fourth tensor; its 64 bytes of data are there whatever its shape says.
CraftedFile with_shape(const char* slug, std::vector<std::uint64_t> dims, std::uint32_t type, const char* found) {
  GgufWriter writer = right_file();
  writer.tensor("bad", std::move(dims), type, std::string(64, '\4'));
  return {slug, "tensor 'bad'", found, writer.bytes()};
}

CraftedFile with_num_dims(const char* slug, std::uint32_t num_dims) {
  GgufWriter writer = right_file();
  writer.tensor("bad", {4}, 0, std::string(16, '\4')).num_dims = num_dims;
  return {slug, "tensor 'bad'", std::to_string(num_dims), writer.bytes()};
}

CraftedFile with_name(const char* slug, const std::string& name, std::uint64_t length, const char* found) {
  GgufWriter writer = right_file();
  writer.tensor(name, {4}, 0, std::string(16, '\4')).name_length = length;
  return {slug, "tensor entry 3", found, writer.bytes()};
}

/// A tensor of 16 bytes at the given place.
CraftedFile with_offset(const char* slug, std::uint64_t offset, const char* found) {
  GgufWriter writer = right_file();
  writer.tensor("bad", {4}, 0, std::string(16, '\4')).offset = offset;
  return {slug, "tensor '", found, writer.bytes()};
}

CraftedFile without_last(const char* slug, std::size_t num_bytes, const char* found) {
  std::string bytes = right_file().bytes();
  bytes.resize(bytes.size() - num_bytes);
  return {slug, "tensor 'third'", found, std::move(bytes)};
}

}  // namespace

std::vector<CraftedFile> crafted_shapes() {
  GgufWriter twice = right_file();
  twice.tensor("first", {4}, 0, std::string(16, '\4'));
  GgufWriter one_more = right_file();  // data is read as a tensor entry
  one_more.num_tensors = 4;
  const std::uint64_t half_wrap = std::uint64_t{1} << 62;
  return {
      with_name("name_empty", "", 0, "0"),
      with_name("name_too_long", std::string(65, 'n'), 65, "65"),
      with_name("name_length_max", "n", kMax64, "18446744073709551615"),
      {"name_twice", "tensor 'first'", "twice", twice.bytes()},
      {"one_tensor_more", "tensor entry 3", "", one_more.bytes()},
      with_num_dims("num_dims_0", 0),
      with_num_dims("num_dims_5", 5),
      with_num_dims("num_dims_9", 9),
      with_num_dims("num_dims_max", 0xffffffffu),
      with_shape("dim_0", {4, 0}, 0, "0"),
      with_shape("dim_2_63", {k2To63}, 0, "9223372036854775808"),
      with_shape("dim_max", {kMax64, 2}, 0, "18446744073709551615"),
      with_shape("dims_of_the_bug_report", {1152, (std::uint64_t{1} << 42) + 1}, 0, "bytes of data"),
      with_shape("dims_product_wraps", {half_wrap, 4}, 0, "[4611686018427387904, 4]"),
      with_shape("dims_product_wraps_to_0", {1u << 16, 1u << 16, 1u << 16, 1u << 16}, 0, "[65536, 65536, 65536, 65536]"),
      with_shape("dims_product_wraps_to_1", {0x5555555555555555u, 3}, 0, "[6148914691236517205, 3]"),
      with_shape("bytes_wrap", {half_wrap}, 0, "[4611686018427387904]"),
      with_shape("bytes_wrap_in_blocks", {half_wrap, 1}, 39, "bytes of data"),
      with_shape("bytes_beyond_file", {std::uint64_t{1} << 40}, 0, "bytes of data"),
      with_shape("type_999", {4}, 999, "999"),
      with_shape("type_removed_4", {32}, 4, "type number 4"),
      with_shape("type_removed_31", {32}, 31, "type number 31"),
      with_shape("type_max", {32}, 0xffffffffu, "4294967295"),
      with_shape("ragged_row_33", {33}, 2, "rows of 33"),
      with_shape("ragged_row_16", {16, 2}, 8, "rows of 16"),
      with_shape("ragged_row_288", {288}, 12, "rows of 288"),
  };
}

std::vector<CraftedFile> crafted_places() {
  GgufWriter inside = right_file();  // "second" begins inside "third"
  inside.tensors[1].offset = 192;
  std::string header_alone = right_file().bytes();
  header_alone.resize(header_alone.size() - (32 + 128 + 144));
  GgufWriter sum_wraps = right_file();
  for (const char* name : {"a", "b"}) sum_wraps.tensor(name, {(std::uint64_t{1} << 60) - 1}, 0, "").offset = 0;
  GgufWriter many;  // as many as are allowed: the lists that they need must stay small
  for (int i = 0; i < 65'536; ++i) many.tensor("t" + std::to_string(i), {4}, 0, std::string(16, '\5'));
  many.tensors.back().offset = 0;
  GgufWriter coarse = right_file();  // offsets fit 32 but not 64
  coarse.number("general.alignment", std::uint32_t{64});
  return {
      with_offset("offset_1", 1, "1"),
      with_offset("offset_16", 16, "16"),
      with_offset("offset_beyond_file", 100'000, "bytes of data"),
      with_offset("offset_2_63", k2To63, "bytes of data"),
      with_offset("offset_max", kMax64, "bytes of data"),
      with_offset("offset_wraps_with_size", kMax64 - 15, "bytes of data"),
      with_offset("offset_at_the_end", 352, "bytes of data"),
      with_offset("same_place", 0, "overlaps"),
      with_offset("inside_another", 64, "overlaps"),
      {"overlap_by_tail", "tensor '", "overlaps", inside.bytes()},
      {"sizes_sum_wraps", "tensor 'a'", "bytes of data", sum_wraps.bytes()},
      {"last_of_many_overlaps", "tensor '", "overlaps", many.bytes()},
      {"alignment_of_the_key", "tensor 'second'", "32", coarse.bytes()},
      {"no_data", "tensor 'first'", "0 bytes of data", std::move(header_alone)},
      without_last("last_byte_missing", 1, "bytes of data"),
      without_last("last_block_missing", 144, "bytes of data"),
  };
}

}  // namespace kvpage_test
