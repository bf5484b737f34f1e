/// \file What metadata values convert to: GgufStrings, GgufNumbers, and GgufConversion, the rule for each type.
#pragma once

#include "engine/loader/gguf_value.hpp"

#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace kvpage::engine {

/// A metadata array of strings: a forward range of std::string_view into the map.
class GgufStrings {
 public:
  class Iterator {
   public:
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::input_iterator_tag;
    using iterator_concept = std::forward_iterator_tag;

    Iterator() = default;
    explicit Iterator(std::span<const std::byte> rest) noexcept : rest_(rest) {}
    std::string_view operator*() const noexcept { return as_text(rest_.subspan(kLengthBytes, length())); }
    Iterator& operator++() noexcept {
      rest_ = rest_.subspan(kLengthBytes + length());
      return *this;
    }
    Iterator operator++(int) noexcept {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const Iterator& other) const noexcept { return rest_.size() == other.rest_.size(); }

   private:
    static constexpr std::size_t kLengthBytes = 8;
    std::size_t length() const noexcept { return static_cast<std::size_t>(load_little_endian<std::uint64_t>(rest_)); }

    std::span<const std::byte> rest_;  // the strings from this one on, each behind its 64-bit length
  };

  /// Requires: `value` is an array of strings.
  explicit GgufStrings(const GgufValue& value) noexcept : bytes_(value.bytes), size_(static_cast<std::size_t>(value.count)) {}

  std::size_t size() const noexcept { return size_; }
  Iterator begin() const noexcept { return Iterator{bytes_}; }
  Iterator end() const noexcept { return Iterator{bytes_.last(0)}; }

 private:
  std::span<const std::byte> bytes_;
  std::size_t size_;
};

/// A metadata array of numbers, read in place as `T` (float, bool or an integer type) whatever width the file stores.
template <class T>
class GgufNumbers {
 public:
  /// The view, if `value` is an array of such numbers and each of them fits T.
  static std::optional<GgufNumbers> make(const GgufValue& value) noexcept {
    if (value.type != GgufType::kArray || gguf_type_info(value.element_type).bytes == 0) return std::nullopt;
    const GgufNumbers numbers{value};
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (!numbers.at(i)) return std::nullopt;
    }
    return numbers;
  }

  std::size_t size() const noexcept { return static_cast<std::size_t>(value_.count); }
  /// Requires: i < size().
  T operator[](std::size_t i) const noexcept { return *at(i); }

 private:
  explicit GgufNumbers(const GgufValue& value) noexcept : value_(value) {}

  std::optional<T> at(std::size_t i) const noexcept {
    const std::size_t width = gguf_type_info(value_.element_type).bytes;
    const auto element = value_.bytes.subspan(i * width, width);
    if constexpr (std::is_same_v<T, bool>) {
      return bool_as(value_.element_type, element);
    } else if constexpr (std::is_floating_point_v<T>) {
      return float_as(value_.element_type, element);
    } else {
      return integer_as<T>(value_.element_type, element);
    }
  }

  GgufValue value_;
};

/// How a metadata value becomes a `T`: `wanted()` for error texts, and `from(value)`, empty if it cannot. Writers disagree about the
/// types of numbers, so a number is taken from any type that states the same value; texts and arrays are not numbers.
template <class T>
struct GgufConversion;

template <StoredInteger T>
struct GgufConversion<T> {
  static std::string wanted() {
    return (std::is_signed_v<T> ? "an integer of at most " : "an unsigned integer of at most ") + std::to_string(sizeof(T) * 8) + " bits";
  }
  static std::optional<T> from(const GgufValue& value) noexcept { return integer_as<T>(value.type, value.bytes); }
};

template <>
struct GgufConversion<float> {
  static std::string wanted() { return "a number"; }
  static std::optional<float> from(const GgufValue& value) noexcept { return float_as(value.type, value.bytes); }
};

template <>
struct GgufConversion<bool> {
  static std::string wanted() { return "a bool"; }
  static std::optional<bool> from(const GgufValue& value) noexcept { return bool_as(value.type, value.bytes); }
};

template <>
struct GgufConversion<std::string_view> {
  static std::string wanted() { return "a string"; }
  static std::optional<std::string_view> from(const GgufValue& value) noexcept {
    if (value.type != GgufType::kString) return std::nullopt;
    return as_text(value.bytes);
  }
};

template <>
struct GgufConversion<GgufStrings> {
  static std::string wanted() { return "an array of strings"; }
  static std::optional<GgufStrings> from(const GgufValue& value) noexcept {
    if (value.type != GgufType::kArray || value.element_type != GgufType::kString) return std::nullopt;
    return GgufStrings{value};
  }
};

template <class T>
struct GgufConversion<GgufNumbers<T>> {
  static std::string wanted() { return "an array in which each element is " + GgufConversion<T>::wanted(); }
  static std::optional<GgufNumbers<T>> from(const GgufValue& value) noexcept { return GgufNumbers<T>::make(value); }
};

}  // namespace kvpage::engine
