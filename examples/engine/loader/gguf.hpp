/// \file Gguf: an open GGUF model of one or several files, with its metadata and tensors.
#pragma once

#include "engine/loader/gguf_header.hpp"
#include "engine/loader/gguf_views.hpp"
#include "engine/loader/mapped_file.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvpage::engine {

/// A GGUF model. It owns the maps of its files: names, texts and tensor data are views that die with it.
/// Threads: const members are safe for any number of readers.
class Gguf {
 public:
  /// Opens `path`, and the other parts if its name ends in -00001-of-0000N.gguf (any part may be named).
  /// Errors: every fault of every file; nothing stays open then.
  static Expected<Gguf, LoadError> open(const std::filesystem::path& path);

  /// Path as the caller gave it.
  const std::string& path() const noexcept { return path_; }
  std::size_t num_parts() const noexcept { return parts_.size(); }
  const MappedFile& part(std::size_t i) const noexcept { return parts_[i].file; }
  /// Sizes of all files together.
  std::int64_t file_bytes() const noexcept;
  std::uint32_t version() const noexcept { return parts_.front().header.version; }

  /// Metadata in file order; that of the first part counts for the whole model.
  std::span<const GgufEntry> metadata() const noexcept { return parts_.front().header.metadata; }
  /// Tensors of all parts, in file order; names are unique.
  std::span<const GgufTensor> tensors() const noexcept { return tensors_; }
  /// The tensor of this name, or nullptr. Cost: logarithmic.
  const GgufTensor* find_tensor(std::string_view name) const noexcept;

  /// The value of `key` as a T: an integer type, float, bool, std::string_view, GgufStrings or GgufNumbers<T>.
  /// A number is taken from any stored type if T has that value. Empty if there is no such key.
  /// Errors: the value has no such meaning, or does not fit.
  template <class T>
  Expected<std::optional<T>, LoadError> find(std::string_view key) const {
    const GgufEntry* entry = parts_.front().header.find_entry(key);
    if (entry == nullptr) return std::optional<T>{};
    if (const auto value = GgufConversion<T>::from(entry->value)) return std::optional<T>{*value};
    return Unexpected{wrong_type(*entry, GgufConversion<T>::wanted())};
  }

  /// The same for a key that must be there.
  template <class T>
  Expected<T, LoadError> get(std::string_view key) const {
    const auto value = find<T>(key);
    if (!value) return Unexpected{value.error()};
    if (!*value) return Unexpected{missing_key(key, GgufConversion<T>::wanted())};
    return **value;
  }

  /// Copies tensor data into `out`, see MappedFile::read: for what is needed once, or in parts.
  /// Requires: `data` lies in that of one tensor; equal sizes. Errors: the file shrank, or cannot be read.
  Expected<void, LoadError> read(std::span<const std::byte> data, std::span<std::byte> out) const;

  /// An error about this model, for rules that are checked by others.
  LoadError error(std::string item, std::string wanted, std::string found, std::string hint) const;

 private:
  struct Part {
    MappedFile file;
    GgufHeader header;
  };

  Gguf() = default;
  static Expected<Part, LoadError> open_part(const std::filesystem::path& path);
  Expected<void, LoadError> open_parts(const std::filesystem::path& path);
  Expected<void, LoadError> check_split(std::uint64_t position, std::uint64_t num_parts) const;
  Expected<void, LoadError> collect_tensors();
  LoadError wrong_type(const GgufEntry& entry, std::string wanted) const;
  LoadError missing_key(std::string_view key, std::string wanted) const;

  std::string path_;
  std::vector<Part> parts_;
  std::vector<GgufTensor> tensors_;
  std::vector<std::uint32_t> by_name_;  // [tensors_.size()], indices in order of names
};

/// Checks every stored scale (and every plain float) of the tensor. `file` is for the error text.
/// Errors: names the tensor and the first block that holds NaN or infinity. Cost: reads the whole tensor once.
Expected<void, LoadError> check_scales(const GgufTensor& tensor, const std::string& file);

}  // namespace kvpage::engine
