/// \file The order of a GGUF parse, and the parts that all of its steps use.
#include "engine/loader/gguf_parser.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace kvpage::engine {

std::string GgufItem::text() const {
  if (name.empty()) return std::string{kind} + " " + std::to_string(position);
  return std::string{kind} + " '" + printable(name) + "'";
}

std::string GgufTensor::shape_text() const {
  std::string text = "[";
  for (int i = 0; i < num_dims; ++i) text += (i == 0 ? "" : ", ") + std::to_string(dims[static_cast<std::size_t>(i)]);
  return text + "]";
}

const GgufEntry* GgufHeader::find_entry(std::string_view key) const noexcept {
  const auto found = std::find_if(metadata.begin(), metadata.end(), [&](const GgufEntry& entry) { return entry.key == key; });
  return found == metadata.end() ? nullptr : &*found;
}

Expected<GgufHeader, LoadError> GgufParser::parse() {
  for (const auto step : {&GgufParser::parse_preamble, &GgufParser::parse_metadata, &GgufParser::take_alignment,
                          &GgufParser::parse_tensors, &GgufParser::place_tensors}) {
    const Done done = (this->*step)();
    if (!done) return Unexpected{done.error()};
  }
  const Done disjoint = require_disjoint();
  if (!disjoint) return Unexpected{disjoint.error()};
  return std::move(header_);
}

GgufParser::Failure GgufParser::fail(const GgufItem& item, std::string wanted, std::string found, std::string hint) const {
  return Failure{LoadError{file_, item.text(), std::move(wanted), std::move(found), std::move(hint)}};
}

GgufParser::Failure GgufParser::cut(const GgufItem& item, const ShortInput& input) const {
  return fail(item, std::to_string(input.wanted_bytes) + " bytes at offset " + std::to_string(input.offset_bytes),
              std::to_string(input.left_bytes) + " bytes until the end of the file",
              "the file is cut short, or a length in it is wrong: download it again");
}

Expected<std::string_view, LoadError> GgufParser::text(const GgufItem& item, std::string_view part, std::uint64_t max_bytes) {
  const std::uint64_t min_bytes = max_bytes == std::numeric_limits<std::uint64_t>::max() ? 0 : 1;
  const auto length = number<std::uint64_t>(item, part, min_bytes, max_bytes, kDamagedHint);
  if (!length) return Unexpected{length.error()};
  const auto bytes = reader_.take(*length);
  if (!bytes) return cut(item, bytes.error());
  return as_text(*bytes);
}

GgufParser::Done GgufParser::require_unique(std::vector<std::string_view> names, std::string_view kind) const {
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return {};
  return fail({kind, *twice}, "each name once", "it at least twice", std::string{kDamagedHint});
}

Expected<GgufHeader, LoadError> parse_gguf(std::span<const std::byte> bytes, const std::string& file) {
  return GgufParser{bytes, file}.parse();
}

}  // namespace kvpage::engine
