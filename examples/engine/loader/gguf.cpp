/// \file Opening of GGUF models, whole or split into parts.
#include "engine/loader/gguf.hpp"

#include "engine/loader/split_name.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace kvpage::engine {
namespace {

constexpr std::string_view kSplitPosition = "split.no";
constexpr std::string_view kSplitCount = "split.count";
constexpr std::string_view kSplitTensors = "split.tensors.count";
constexpr const char* kSameSetHint = "download all parts of one and the same model again";

/// The split key of a part as an integer; absent = 0.
Expected<std::uint64_t, LoadError> split_number(const GgufHeader& header, std::string_view key, const std::string& file) {
  const GgufEntry* entry = header.find_entry(key);
  if (entry == nullptr) return std::uint64_t{0};
  if (const auto value = integer_as<std::uint64_t>(entry->value.type, entry->value.bytes)) return *value;
  return Unexpected{LoadError{file, "key '" + std::string{key} + "'", "an unsigned integer", entry->value.type_name(), kSameSetHint}};
}

/// Keeps what is read of the header from making data resident.
void separate_data(const MappedFile& file, const GgufHeader& header) {
  const std::byte* begin = file.bytes().data() + file.bytes().size();
  for (const GgufTensor& tensor : header.tensors) begin = std::min(begin, tensor.data.data());
  file.separate(static_cast<std::size_t>(begin - file.bytes().data()));
}

}  // namespace

Expected<Gguf, LoadError> Gguf::open(const std::filesystem::path& path) {
  Gguf model;
  model.path_ = path.string();
  const auto opened = model.open_parts(path);
  if (!opened) return Unexpected{opened.error()};
  const auto collected = model.collect_tensors();
  if (!collected) return Unexpected{collected.error()};
  return model;
}

Expected<Gguf::Part, LoadError> Gguf::open_part(const std::filesystem::path& path) {
  auto file = MappedFile::open(path);
  if (!file) return Unexpected{file.error()};
  auto header = parse_gguf(file->bytes(), file->path());
  if (!header) return Unexpected{header.error()};
  separate_data(*file, *header);
  return Part{std::move(*file), std::move(*header)};
}

Expected<void, LoadError> Gguf::open_parts(const std::filesystem::path& path) {
  const auto split = SplitName::parse(path);
  const std::uint32_t num_parts = split ? split->num_parts : 1;
  for (std::uint32_t i = 0; i < num_parts; ++i) {
    const std::filesystem::path part_path = split ? split->part_path(i) : path;
    std::error_code ignored;
    if (split && !std::filesystem::exists(part_path, ignored)) {
      return Unexpected{LoadError{part_path.string(), "part " + std::to_string(i + 1), "all " + std::to_string(num_parts) + " parts",
                                  "that this one is missing", "put it beside the other parts"}};
    }
    auto part = open_part(part_path);
    if (!part) return Unexpected{part.error()};
    parts_.push_back(std::move(*part));
    const auto checked = check_split(i, num_parts);
    if (!checked) return checked;
  }
  return {};
}

Expected<void, LoadError> Gguf::check_split(std::uint64_t position, std::uint64_t num_parts) const {
  const Part& part = parts_.back();
  const std::string& file = part.file.path();
  const auto stated_count = split_number(part.header, kSplitCount, file);
  if (!stated_count) return Unexpected{stated_count.error()};
  const auto stated_position = split_number(part.header, kSplitPosition, file);
  if (!stated_position) return Unexpected{stated_position.error()};
  if (num_parts == 1 && *stated_count <= 1 && *stated_position == 0) return {};
  if (*stated_count != num_parts) {
    return Unexpected{LoadError{file, "key 'split.count'", std::to_string(num_parts) + ", as the file name says",
                                std::to_string(*stated_count), "keep the names -00001-of-0000N.gguf of the parts"}};
  }
  if (*stated_position != position) {
    return Unexpected{LoadError{file, "key 'split.no'", std::to_string(position) + ", as the file name says",
                                std::to_string(*stated_position), "keep the names -00001-of-0000N.gguf of the parts"}};
  }
  return {};
}

Expected<void, LoadError> Gguf::collect_tensors() {
  for (const Part& part : parts_) tensors_.insert(tensors_.end(), part.header.tensors.begin(), part.header.tensors.end());
  const auto stated = split_number(parts_.front().header, kSplitTensors, parts_.front().file.path());
  if (!stated) return Unexpected{stated.error()};
  if (parts_.size() > 1 && *stated != tensors_.size()) {
    return Unexpected{error("key 'split.tensors.count'", std::to_string(*stated) + " tensors in all parts",
                            std::to_string(tensors_.size()), kSameSetHint)};
  }
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  std::sort(by_name_.begin(), by_name_.end(), [this](auto a, auto b) { return tensors_[a].name < tensors_[b].name; });
  const auto twice = std::adjacent_find(by_name_.begin(), by_name_.end(),
                                        [this](auto a, auto b) { return tensors_[a].name == tensors_[b].name; });
  if (twice == by_name_.end()) return {};
  return Unexpected{error("tensor '" + printable(tensors_[*twice].name) + "'", "it in one part", "it in two parts", kSameSetHint)};
}

std::int64_t Gguf::file_bytes() const noexcept {
  std::int64_t sum = 0;
  for (const Part& part : parts_) sum += part.file.file_bytes();
  return sum;
}

Expected<void, LoadError> Gguf::read(std::span<const std::byte> data, std::span<std::byte> out) const {
  const auto holds = [&](const Part& part) {
    const auto bytes = part.file.bytes();
    return data.data() >= bytes.data() && data.data() < bytes.data() + bytes.size();
  };
  return std::find_if(parts_.begin(), parts_.end(), holds)->file.read(data, out);
}

const GgufTensor* Gguf::find_tensor(std::string_view name) const noexcept {
  const auto found = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                      [this](std::uint32_t i, std::string_view wanted) { return tensors_[i].name < wanted; });
  return found == by_name_.end() || tensors_[*found].name != name ? nullptr : &tensors_[*found];
}

LoadError Gguf::error(std::string item, std::string wanted, std::string found, std::string hint) const {
  return {path_, std::move(item), std::move(wanted), std::move(found), std::move(hint)};
}

LoadError Gguf::wrong_type(const GgufEntry& entry, std::string wanted) const {
  std::string found = "a value of type " + entry.value.type_name();
  const auto number = integer_as<std::int64_t>(entry.value.type, entry.value.bytes);
  if (number) found += " with value " + std::to_string(*number);
  return error("key '" + printable(entry.key) + "'", std::move(wanted), std::move(found),
               "convert the model again with current tools");
}

LoadError Gguf::missing_key(std::string_view key, std::string wanted) const {
  return error("key '" + printable(key) + "'", std::move(wanted), "no such key", "convert the model again with current tools");
}

}  // namespace kvpage::engine
