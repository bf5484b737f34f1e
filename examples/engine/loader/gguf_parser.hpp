/// \file GgufParser: walks the header of one GGUF file and refuses the first thing that is wrong in it.
#pragma once

#include "engine/loader/byte_reader.hpp"
#include "engine/loader/gguf_header.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvpage::engine {

/// What is being read, for error texts; no text is made until there is an error.
struct GgufItem {
  std::string_view kind;
  std::string_view name;        ///< as in the file; empty while it is not known
  std::uint64_t position = 0;   ///< among its kind, for items without a name

  std::string text() const;
};

/// One parse of one file; see parse_gguf.
class GgufParser {
 public:
  GgufParser(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), reader_(bytes), file_(file) {}

  Expected<GgufHeader, LoadError> parse();

 private:
  using Failure = Unexpected<LoadError>;
  using Done = Expected<void, LoadError>;

  // gguf_metadata.cpp: magic, version, counts, keys and values
  Done parse_preamble();
  Done parse_metadata();
  Expected<GgufEntry, LoadError> parse_entry(std::uint64_t position);
  Expected<GgufValue, LoadError> parse_value(const GgufItem& item);
  Expected<GgufValue, LoadError> parse_array(const GgufItem& item, int depth = 1);
  Expected<GgufValue, LoadError> skip_arrays(const GgufItem& item, int depth);
  Expected<GgufValue, LoadError> parse_elements(const GgufItem& item, GgufType element_type, Untrusted<std::uint64_t> count);
  Done take_alignment();

  // gguf_tensors.cpp: shapes, types and places of tensors
  Done parse_tensors();
  Expected<GgufTensor, LoadError> parse_tensor(std::uint64_t position);
  Done parse_dims(const GgufItem& item, GgufTensor& tensor);
  Expected<std::uint64_t, LoadError> tensor_bytes(const GgufTensor& tensor) const;
  Done place_tensors();
  Done require_disjoint() const;

  // gguf_parser.cpp: what all of them use
  Failure fail(const GgufItem& item, std::string wanted, std::string found, std::string hint) const;
  Failure cut(const GgufItem& item, const ShortInput& input) const;
  Expected<std::string_view, LoadError> text(const GgufItem& item, std::string_view part, std::uint64_t max_bytes);
  Done require_unique(std::vector<std::string_view> names, std::string_view kind) const;

  template <StoredInteger T>
  Expected<T, LoadError> number(const GgufItem& item, std::string_view part, T lo, T hi, std::string_view hint) {
    const auto value = reader_.read<T>();
    if (!value) return cut(item, value.error());
    const auto checked = value->in_range(lo, hi);
    if (checked) return *checked;
    return fail(item, std::string{part} + " from " + std::to_string(lo) + " to " + std::to_string(hi),
                std::to_string(value->for_message()), std::string{hint});
  }

  std::span<const std::byte> bytes_;
  ByteReader reader_;
  const std::string& file_;
  GgufHeader header_;
  std::uint64_t num_tensors_ = 0;
  std::uint64_t num_entries_ = 0;
  std::vector<Untrusted<std::uint64_t>> offsets_bytes_;  // [num_tensors], from the start of the data section
};

/// For what the format allows, but no file of a model that runs here needs.
inline constexpr std::string_view kBeyondLimitsHint = "the file goes beyond the limits of this program: it cannot be loaded";
inline constexpr std::string_view kDamagedHint = "the file is damaged or was written by a faulty tool: download it again";

}  // namespace kvpage::engine
