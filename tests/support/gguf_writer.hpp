/// \file GgufWriter: makes GGUF files for tests, right ones and, through its hooks, wrong ones.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace kvpage_test {

/// Appends the little-endian bytes of a number (floats and bools too).
template <class T>
void put(std::string& out, T value) {
  if constexpr (std::is_same_v<T, float>) {
    put(out, std::bit_cast<std::uint32_t>(value));
  } else if constexpr (std::is_same_v<T, double>) {
    put(out, std::bit_cast<std::uint64_t>(value));
  } else {
    for (std::size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xff);
  }
}

/// Appends a string as GGUF stores it: 64-bit length, bytes.
inline void put_text(std::string& out, std::string_view text) {
  put<std::uint64_t>(out, text.size());
  out += text;
}

/// Number of the metadata type that stores a T.
template <class T>
constexpr std::uint32_t gguf_type_number() {
  if constexpr (std::is_same_v<T, std::uint8_t>) return 0;
  if constexpr (std::is_same_v<T, std::int8_t>) return 1;
  if constexpr (std::is_same_v<T, std::uint16_t>) return 2;
  if constexpr (std::is_same_v<T, std::int16_t>) return 3;
  if constexpr (std::is_same_v<T, std::uint32_t>) return 4;
  if constexpr (std::is_same_v<T, std::int32_t>) return 5;
  if constexpr (std::is_same_v<T, float>) return 6;
  if constexpr (std::is_same_v<T, bool>) return 7;
  if constexpr (std::is_same_v<T, std::uint64_t>) return 10;
  if constexpr (std::is_same_v<T, std::int64_t>) return 11;
  if constexpr (std::is_same_v<T, double>) return 12;
}
inline constexpr std::uint32_t kGgufText = 8;
inline constexpr std::uint32_t kGgufArray = 9;

/// A file under construction. Public fields are the hooks: whatever is set there is written, right or wrong.
class GgufWriter {
 public:
  struct Tensor {
    std::string name;
    std::vector<std::uint64_t> dims;  ///< row length first
    std::uint32_t type = 0;
    std::string data;
    std::optional<std::uint32_t> num_dims{};         ///< stated instead of dims.size()
    std::optional<std::uint64_t> offset{};           ///< stated instead of the true place
    std::optional<std::uint64_t> name_length{};      ///< stated instead of name.size()
  };

  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::uint32_t alignment = 32;  ///< for placing tensors; write the key general.alignment yourself
  std::optional<std::uint64_t> num_tensors{};
  std::optional<std::uint64_t> num_metadata{};
  std::deque<Tensor> tensors;  ///< a deque, so that references from `tensor` stay valid

  template <class T>
  GgufWriter& number(std::string_view key, T value) {
    std::string bytes;
    put(bytes, value);
    return raw(key, gguf_type_number<T>(), bytes);
  }

  GgufWriter& text(std::string_view key, std::string_view value) {
    std::string bytes;
    put_text(bytes, value);
    return raw(key, kGgufText, bytes);
  }

  template <class T>
  GgufWriter& numbers(std::string_view key, const std::vector<T>& values) {
    std::string bytes;
    for (const T value : values) put<T>(bytes, value);
    return array(key, gguf_type_number<T>(), values.size(), bytes);
  }

  GgufWriter& texts(std::string_view key, const std::vector<std::string>& values) {
    std::string bytes;
    for (const std::string& value : values) put_text(bytes, value);
    return array(key, kGgufText, values.size(), bytes);
  }

  /// An array with whatever element type, count and bytes are given.
  GgufWriter& array(std::string_view key, std::uint32_t element_type, std::uint64_t count, std::string_view elements) {
    std::string bytes;
    put(bytes, element_type);
    put(bytes, count);
    bytes += elements;
    return raw(key, kGgufArray, bytes);
  }

  /// A value with whatever type number and bytes are given.
  GgufWriter& raw(std::string_view key, std::uint32_t type, std::string_view bytes) {
    std::string entry;
    put_text(entry, key);
    put(entry, type);
    entry += bytes;
    return entry_bytes(entry);
  }

  /// A whole metadata entry, as given.
  GgufWriter& entry_bytes(std::string_view bytes) {
    metadata_ += bytes;
    ++written_metadata_;
    return *this;
  }

  Tensor& tensor(std::string_view name, std::vector<std::uint64_t> dims, std::uint32_t type, std::string data) {
    return tensors.emplace_back(Tensor{std::string{name}, std::move(dims), type, std::move(data)});
  }

  /// The file, without padding behind the last tensor: every byte counts.
  std::string bytes() const {
    std::string out = magic;
    put(out, version);
    put(out, num_tensors.value_or(tensors.size()));
    put(out, num_metadata.value_or(written_metadata_));
    out += metadata_;
    std::string data;
    for (const Tensor& tensor : tensors) {
      pad(data);
      put(out, tensor.name_length.value_or(tensor.name.size()));
      out += tensor.name;
      put(out, tensor.num_dims.value_or(static_cast<std::uint32_t>(tensor.dims.size())));
      for (const std::uint64_t dim : tensor.dims) put(out, dim);
      put(out, tensor.type);
      put(out, tensor.offset.value_or(data.size()));
      data += tensor.data;
    }
    if (!tensors.empty()) pad(out);
    return out + data;
  }

  void write(const std::filesystem::path& path) const { write_file(path, bytes()); }

  static void write_file(const std::filesystem::path& path, std::string_view bytes) {
    std::ofstream file{path, std::ios::binary};
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!file.flush()) throw std::runtime_error{"cannot write " + path.string()};
  }

 private:
  void pad(std::string& out) const {
    while (out.size() % alignment != 0) out += '\0';
  }

  std::string metadata_;
  std::uint64_t written_metadata_ = 0;
};

}  // namespace kvpage_test
