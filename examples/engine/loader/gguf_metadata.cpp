/// \file The first half of a GGUF parse: magic, version, counts, metadata.
#include "engine/loader/gguf_parser.hpp"

#include <algorithm>
#include <limits>

namespace kvpage::engine {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr std::string_view kAlignmentKey = "general.alignment";
constexpr std::uint64_t kMinEntryBytes = 8 + 1 + 4 + 1;           // key length, key, type, value
constexpr std::uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;  // name length, name, n_dims, one dim, type, offset
constexpr std::uint64_t kStringLengthBytes = 8;
constexpr std::uint32_t kLastType = static_cast<std::uint32_t>(GgufType::kDouble);

/// What a file that is no GGUF file most likely is.
std::string_view hint_for_magic(std::string_view magic) {
  if (magic.starts_with("PK") || magic.starts_with("\x80")) return "this looks like a PyTorch file: convert the model to GGUF first";
  if (magic == "FUGG") return "this is a big-endian GGUF file: convert it to little-endian";
  if (magic == "ggjt" || magic == "tjgg" || magic == "lmgg" || magic == "fmgg") return "this is a pre-GGUF file: convert it to GGUF";
  if (magic == "vers") return "this is a Git LFS pointer: fetch the file itself with git lfs pull";
  return "only GGUF models can be loaded: check the path, or convert the model to GGUF first";
}

}  // namespace

GgufParser::Done GgufParser::parse_preamble() {
  const GgufItem magic_item{"the magic bytes at offset", {}, 0};
  const auto magic = reader_.take(kMagic.size());
  if (!magic) return cut(magic_item, magic.error());
  if (as_text(*magic) != kMagic) {
    return fail(magic_item, "'GGUF'", "'" + printable(as_text(*magic)) + "'", std::string{hint_for_magic(as_text(*magic))});
  }
  const GgufItem version_item{"the format version at offset", {}, 4};
  const auto version = reader_.read<std::uint32_t>();
  if (!version) return cut(version_item, version.error());
  const auto known_version = version->in_range(2, 3);
  if (!known_version) {
    const std::uint32_t found = version->for_message();
    const bool big_endian = (found & 0xffffu) == 0 && found != 0;
    return fail(version_item, "2 or 3", std::to_string(found),
                big_endian  ? "this is a big-endian file: convert it to little-endian"
                : found > 3 ? "the file is of a newer format than this program reads, or damaged"
                            : "convert the model with current tools");
  }
  header_.version = *known_version;

  const auto count = [this](const GgufItem& item, std::uint64_t most, std::uint64_t min_bytes) {
    const std::uint64_t held = reader_.left_bytes() / min_bytes;
    return number<std::uint64_t>(item, held < most ? "a count that the bytes left can hold," : "a count", 0, std::min(most, held),
                                 held < most ? kDamagedHint : kBeyondLimitsHint);
  };
  const auto num_tensors = count({"the number of tensors at offset", {}, 8}, GgufLimits::kMaxTensors, kMinTensorBytes);
  if (!num_tensors) return Unexpected{num_tensors.error()};
  const auto num_entries = count({"the number of metadata keys at offset", {}, 16}, GgufLimits::kMaxMetadataEntries, kMinEntryBytes);
  if (!num_entries) return Unexpected{num_entries.error()};
  num_tensors_ = *num_tensors;
  num_entries_ = *num_entries;
  return {};
}

GgufParser::Done GgufParser::parse_metadata() {
  header_.metadata.reserve(static_cast<std::size_t>(num_entries_));
  std::vector<std::string_view> keys;
  keys.reserve(static_cast<std::size_t>(num_entries_));
  for (std::uint64_t i = 0; i < num_entries_; ++i) {
    const auto entry = parse_entry(i);
    if (!entry) return Unexpected{entry.error()};
    header_.metadata.push_back(*entry);
    keys.push_back(entry->key);
  }
  return require_unique(std::move(keys), "key");
}

Expected<GgufEntry, LoadError> GgufParser::parse_entry(std::uint64_t position) {
  const auto key = text({"metadata key", {}, position}, "a key length", GgufLimits::kMaxKeyBytes);
  if (!key) return Unexpected{key.error()};
  const auto value = parse_value({"key", *key});
  if (!value) return Unexpected{value.error()};
  return GgufEntry{*key, *value};
}

Expected<GgufValue, LoadError> GgufParser::parse_value(const GgufItem& item) {
  const auto number_of_type = number<std::uint32_t>(item, "a value type", 0, kLastType, kDamagedHint);
  if (!number_of_type) return Unexpected{number_of_type.error()};
  const auto type = static_cast<GgufType>(*number_of_type);
  if (type == GgufType::kArray) return parse_array(item);
  if (type != GgufType::kString) return parse_elements(item, type, Untrusted<std::uint64_t>{1});
  const auto value = text(item, "a string length", std::numeric_limits<std::uint64_t>::max());
  if (!value) return Unexpected{value.error()};
  return GgufValue{type, type, 1, std::as_bytes(std::span{value->data(), value->size()})};
}

Expected<GgufValue, LoadError> GgufParser::parse_array(const GgufItem& item, int depth) {
  const auto number_of_type = number<std::uint32_t>(item, "an element type", 0, kLastType, kDamagedHint);
  if (!number_of_type) return Unexpected{number_of_type.error()};
  const auto element_type = static_cast<GgufType>(*number_of_type);
  if (element_type == GgufType::kArray) return skip_arrays(item, depth);
  const auto count = reader_.read<std::uint64_t>();
  if (!count) return cut(item, count.error());
  auto value = parse_elements(item, element_type, *count);
  if (value) value->type = GgufType::kArray;
  return value;
}

/// An array of arrays: checked and passed by, for no key that is read has one.
Expected<GgufValue, LoadError> GgufParser::skip_arrays(const GgufItem& item, int depth) {
  constexpr std::uint64_t kMinArrayBytes = 4 + 8;  // element type, count
  if (depth == GgufLimits::kMaxArrayDepth) {
    return fail(item, "arrays in at most " + std::to_string(depth) + " arrays", "deeper ones", std::string{kBeyondLimitsHint});
  }
  const auto stated = reader_.read<std::uint64_t>();
  if (!stated) return cut(item, stated.error());
  const auto count = stated->in_range(0, reader_.left_bytes() / kMinArrayBytes);
  if (!count) {
    return fail(item, "at most " + std::to_string(reader_.left_bytes() / kMinArrayBytes) + " arrays in the bytes left",
                std::to_string(stated->for_message()), std::string{kDamagedHint});
  }
  const auto begin = static_cast<std::size_t>(reader_.offset_bytes());
  for (std::uint64_t i = 0; i < *count; ++i) {
    if (const auto element = parse_array(item, depth + 1); !element) return Unexpected{element.error()};
  }
  const auto end = static_cast<std::size_t>(reader_.offset_bytes());
  return GgufValue{GgufType::kArray, GgufType::kArray, *count, bytes_.subspan(begin, end - begin)};
}

Expected<GgufValue, LoadError> GgufParser::parse_elements(const GgufItem& item, GgufType element_type,
                                                          Untrusted<std::uint64_t> count) {
  const bool strings = element_type == GgufType::kString;
  const std::uint64_t min_bytes = strings ? kStringLengthBytes : gguf_type_info(element_type).bytes;
  const auto known_count = count.in_range(0, reader_.left_bytes() / min_bytes);
  if (!known_count) {
    return fail(item, "at most " + std::to_string(reader_.left_bytes() / min_bytes) + " values in the bytes left",
                std::to_string(count.for_message()), std::string{kDamagedHint});
  }
  const auto begin = static_cast<std::size_t>(reader_.offset_bytes());
  if (strings) {
    for (std::uint64_t i = 0; i < *known_count; ++i) {
      const auto element = text(item, "a string length", std::numeric_limits<std::uint64_t>::max());
      if (!element) return Unexpected{element.error()};
    }
  } else {
    const auto taken = reader_.take(*known_count * min_bytes);  // cannot wrap: it is at most left_bytes()
    if (!taken) return cut(item, taken.error());
    const auto is_no_bool = [](std::byte b) { return b > std::byte{1}; };
    if (element_type == GgufType::kBool && std::any_of(taken->begin(), taken->end(), is_no_bool)) {
      return fail(item, "0 or 1 for a bool", "another number", std::string{kDamagedHint});
    }
  }
  const auto end = static_cast<std::size_t>(reader_.offset_bytes());
  return GgufValue{element_type, element_type, *known_count, bytes_.subspan(begin, end - begin)};
}

GgufParser::Done GgufParser::take_alignment() {
  header_.alignment = GgufLimits::kDefaultAlignment;
  const GgufEntry* entry = header_.find_entry(kAlignmentKey);
  if (entry == nullptr) return {};
  const GgufItem item{"key", kAlignmentKey};
  const auto stated = integer_as<std::uint64_t>(entry->value.type, entry->value.bytes);
  if (!stated) return fail(item, "a number", "a value of type " + entry->value.type_name(), std::string{kDamagedHint});
  if (*stated < GgufLimits::kMinAlignment || *stated > GgufLimits::kMaxAlignment || !std::has_single_bit(*stated)) {
    return fail(item, "a power of two from 8 to 65536", std::to_string(*stated), std::string{kDamagedHint});
  }
  header_.alignment = static_cast<std::uint32_t>(*stated);
  return {};
}

}  // namespace kvpage::engine
