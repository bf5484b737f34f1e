/// \file The second half of a GGUF parse: shapes, types and places of tensors.
#include "engine/loader/gguf_parser.hpp"

#include <kvpage/quant/weight_formats.hpp>

#include <algorithm>
#include <limits>

namespace kvpage::engine {
namespace {

constexpr std::string_view kTensor = "tensor";

std::string format_names() {
  std::string names;
  for_each_type(WeightFormats{}, [&]<class Format>() {
    if (!names.empty()) names += ' ';
    names += Format::kName;
  });
  return names;
}

std::string bytes_text(std::uint64_t bytes) { return std::to_string(bytes) + " bytes"; }

}  // namespace

GgufParser::Done GgufParser::parse_tensors() {
  header_.tensors.reserve(static_cast<std::size_t>(num_tensors_));
  offsets_bytes_.reserve(static_cast<std::size_t>(num_tensors_));
  std::vector<std::string_view> names;
  names.reserve(static_cast<std::size_t>(num_tensors_));
  for (std::uint64_t i = 0; i < num_tensors_; ++i) {
    const auto tensor = parse_tensor(i);
    if (!tensor) return Unexpected{tensor.error()};
    header_.tensors.push_back(*tensor);
    names.push_back(tensor->name);
  }
  return require_unique(std::move(names), kTensor);
}

Expected<GgufTensor, LoadError> GgufParser::parse_tensor(std::uint64_t position) {
  GgufTensor tensor;
  const auto name = text({"tensor entry", {}, position}, "a name length", GgufLimits::kMaxTensorNameBytes);
  if (!name) return Unexpected{name.error()};
  tensor.name = *name;
  const GgufItem item{kTensor, tensor.name};
  const Done dims = parse_dims(item, tensor);
  if (!dims) return Unexpected{dims.error()};

  const auto type = reader_.read<std::uint32_t>();
  if (!type) return cut(item, type.error());
  tensor.format = find_weight_format(type->for_message());  // a look-up; the number is used for nothing else
  if (tensor.format == nullptr) {
    return fail(item, "one of the types " + format_names(), "type number " + std::to_string(type->for_message()),
                "take a file of this model in one of these types");
  }
  const auto offset = reader_.read<std::uint64_t>();
  if (!offset) return cut(item, offset.error());
  offsets_bytes_.push_back(*offset);
  return tensor;
}

GgufParser::Done GgufParser::parse_dims(const GgufItem& item, GgufTensor& tensor) {
  const auto num_dims = number<std::uint32_t>(item, "a number of dimensions", 1, 4, kDamagedHint);
  if (!num_dims) return Unexpected{num_dims.error()};
  tensor.num_dims = static_cast<int>(*num_dims);
  for (std::size_t i = 0; i < *num_dims; ++i) {
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    const auto dim = number<std::uint64_t>(item, "a dimension", 1, kMost, kDamagedHint);
    if (!dim) return Unexpected{dim.error()};
    tensor.dims[i] = static_cast<std::int64_t>(*dim);
  }
  return {};
}

Expected<std::uint64_t, LoadError> GgufParser::tensor_bytes(const GgufTensor& tensor) const {
  const GgufItem item{kTensor, tensor.name};
  if (tensor.row_length() % tensor.format->block_elements != 0) {
    return fail(item, "rows of whole blocks of " + std::to_string(tensor.format->block_elements) + " values",
                "rows of " + std::to_string(tensor.row_length()) + " values in " + std::string{tensor.format->name},
                "take a file of this model in a type with smaller blocks");
  }
  Expected<std::int64_t, OutOfRange> elements = tensor.dims[0];
  for (std::size_t i = 1; i < tensor.dims.size() && elements; ++i) elements = checked_mul(*elements, tensor.dims[i]);
  if (elements) {
    const auto bytes = checked_mul(*elements / tensor.format->block_elements, tensor.format->block_bytes);
    if (bytes) return static_cast<std::uint64_t>(*bytes);
  }
  return fail(item, "a shape whose size fits in 63 bits", tensor.shape_text(), std::string{kDamagedHint});
}

GgufParser::Done GgufParser::place_tensors() {
  const auto header_end = static_cast<std::uint64_t>(reader_.offset_bytes());
  const std::uint64_t data_begin = (header_end + header_.alignment - 1) / header_.alignment * header_.alignment;
  const auto data = bytes_.subspan(std::min<std::uint64_t>(data_begin, bytes_.size()));
  for (std::size_t i = 0; i < header_.tensors.size(); ++i) {
    GgufTensor& tensor = header_.tensors[i];
    const GgufItem item{kTensor, tensor.name};
    const auto bytes = tensor_bytes(tensor);
    if (!bytes) return Unexpected{bytes.error()};
    const auto offset = offsets_bytes_[i].in_range(0, data.size());
    if (!offset || *bytes > data.size() - *offset) {
      return fail(item, bytes_text(*bytes) + " at offset " + std::to_string(offsets_bytes_[i].for_message()) + " of the data",
                  bytes_text(data.size()) + " of data in the file", "the file is cut short, or its header is wrong: download it again");
    }
    if (*offset % header_.alignment != 0) {
      return fail(item, "an offset that is a multiple of " + std::to_string(header_.alignment), std::to_string(*offset),
                  std::string{kDamagedHint});
    }
    tensor.data = data.subspan(*offset, *bytes);
  }
  return {};
}

GgufParser::Done GgufParser::require_disjoint() const {
  std::vector<const GgufTensor*> by_place;
  by_place.reserve(header_.tensors.size());
  for (const GgufTensor& tensor : header_.tensors) by_place.push_back(&tensor);
  std::sort(by_place.begin(), by_place.end(),
            [](const GgufTensor* a, const GgufTensor* b) { return a->data.data() < b->data.data(); });
  for (std::size_t i = 1; i < by_place.size(); ++i) {
    const GgufTensor& before = *by_place[i - 1];
    if (by_place[i]->data.data() >= before.data.data() + before.data.size()) continue;
    return fail({kTensor, by_place[i]->name}, "data of its own", "data that overlaps tensor '" + printable(before.name) + "'",
                std::string{kDamagedHint});
  }
  return {};
}

}  // namespace kvpage::engine
