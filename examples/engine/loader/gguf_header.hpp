/// \file GgufHeader: everything that one GGUF file says about itself, and the parser that checks it.
#pragma once

#include "engine/loader/gguf_value.hpp"
#include "engine/loader/load_error.hpp"

#include <kvpage/base/expected.hpp>
#include <kvpage/quant/weight_view.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvpage::engine {

/// One key of the metadata; key and value are views into the file.
struct GgufEntry {
  std::string_view key;
  GgufValue value;
};

/// One tensor; name and data are views into the file.
struct GgufTensor {
  std::string_view name;
  std::array<std::int64_t, 4> dims{1, 1, 1, 1};  ///< dims[0] = row length, stored contiguously; each >= 1
  int num_dims = 0;                              ///< 1 to 4; later dims are 1
  const WeightFormatInfo* format = nullptr;
  std::span<const std::byte> data;  ///< [num_rows, row_length], whole blocks of `format`

  std::int64_t row_length() const noexcept { return dims[0]; }
  std::int64_t num_rows() const noexcept { return dims[1] * dims[2] * dims[3]; }
  std::int64_t num_elements() const noexcept { return row_length() * num_rows(); }
  /// Norms, biases and the like: what a model reads as plain floats.
  bool is_vector() const noexcept { return num_rows() == 1; }
  /// The tensor as a matrix [num_rows, row_length].
  WeightView view() const { return weight_view(*format, data.data(), num_rows(), row_length()); }
  /// "[64, 128]": the dimensions that the file states, row length first.
  std::string shape_text() const;
};

/// A parsed header. It owns its lists and views the bytes that it was parsed from.
struct GgufHeader {
  std::uint32_t version = 0;
  std::uint32_t alignment = 0;
  std::vector<GgufEntry> metadata;  ///< in file order, keys unique
  std::vector<GgufTensor> tensors;  ///< in file order, names unique, data inside the file and disjoint

  /// The entry of `key`, or nullptr. Cost: linear in the number of keys (tens).
  const GgufEntry* find_entry(std::string_view key) const noexcept;
};

/// Bounds that no sane file passes; they keep a hostile header from costing memory.
struct GgufLimits {
  static constexpr std::uint64_t kMaxMetadataEntries = 65'536;
  static constexpr std::uint64_t kMaxTensors = 65'536;
  static constexpr std::uint64_t kMaxKeyBytes = 65'535;
  static constexpr std::uint64_t kMaxTensorNameBytes = 64;
  static constexpr int kMaxArrayDepth = 16;  ///< arrays in arrays
  static constexpr std::uint32_t kMinAlignment = 8;
  static constexpr std::uint32_t kMaxAlignment = 65'536;
  static constexpr std::uint32_t kDefaultAlignment = 32;
};

/// Parses and checks a whole GGUF file, version 2 or 3, little-endian. `file` is its name for error texts.
/// Ensures: every view lies inside `bytes`; no tensor overlaps another; memory is bounded by a small multiple of the header.
/// Cost: linear in the header; tensor data is not touched.
/// Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
Expected<GgufHeader, LoadError> parse_gguf(std::span<const std::byte> bytes, const std::string& file);

}  // namespace kvpage::engine
