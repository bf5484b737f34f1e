/// \file SpecReader: reads the settings of one architecture from the metadata, whatever types and shapes writers give them.
#pragma once

#include "engine/loader/gguf.hpp"

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvpage::engine {

/// Reads keys below the architecture's name and remembers the first error, so that a list of reads stays a list. A setting may be a
/// scalar, or an array of one equal value per layer; what differs between layers is an error that says so.
class SpecReader {
 public:
  SpecReader(const Gguf& file, std::string prefix) : file_(file), prefix_(std::move(prefix)) {}

  /// How many elements an array of one value per layer has. No array is taken before it is known.
  void set_num_layers(std::int64_t num_layers) { num_layers_ = static_cast<std::size_t>(num_layers); }

  bool has(const std::string& key) const { return entry_at(key) != nullptr; }

  /// A count in [lo, hi]; `fallback` if the key is absent, an error if there is none (fallback < 0).
  std::int64_t count(const std::string& key, std::int64_t lo, std::int64_t hi, std::int64_t fallback = -1);

  /// A finite number above `lowest`, or `fallback`, or an error if that is negative.
  float positive(const std::string& key, float fallback, float lowest = 0);

  /// The same, and 0 means what an absent key does.
  float positive_unless_off(const std::string& key, float fallback);

  std::string text(const std::string& key, const std::string& fallback);

  /// One truth per layer, if the key is such an array.
  std::optional<std::vector<bool>> flags(const std::string& key);

  /// Keys below `group` that are not among `known`: what is not understood must not be ignored.
  void require_known(const std::string& group, std::initializer_list<std::string_view> known);

  /// A setting that no kernel here has: an error unless it is absent or one of the values that change nothing.
  void require_neutral(const std::string& key, std::initializer_list<float> neutral);

  /// The value contradicts the format, other values, or arithmetic.
  void fail(const std::string& key, std::string wanted, std::string found);
  /// The value is a right one, of a model that cannot be run here.
  void unsupported(const std::string& key, std::string wanted, std::string found);
  const std::optional<LoadError>& error() const noexcept { return error_; }

 private:
  /// The number at `key`, if there is one and no error.
  template <class T>
  std::optional<T> number(const std::string& key);
  template <class T>
  std::optional<T> equal_elements(const std::string& key, const GgufNumbers<T>& elements);
  const GgufEntry* entry_at(const std::string& key) const;
  bool is_array(const std::string& key) const { return has(key) && entry_at(key)->value.type == GgufType::kArray; }
  void fail(LoadError error);

  const Gguf& file_;
  std::string prefix_;
  std::size_t num_layers_ = 0;
  std::optional<LoadError> error_;
};

}  // namespace kvpage::engine
