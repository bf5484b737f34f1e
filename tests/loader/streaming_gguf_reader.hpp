/// \file A second GGUF checker that shares no code with the loader: reads a stream front to back and says yes or no.
#pragma once

#include <algorithm>
#include <cstdint>
#include <istream>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace kvpage_test {

/// Written from the format's definition only. Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
class StreamingGgufReader {
 public:
  /// Empty if the stream is a GGUF file that a loader must accept, else why not.
  static std::string verdict(std::istream& in) {
    try {
      StreamingGgufReader{in}.read();
      return {};
    } catch (const std::runtime_error& refusal) {
      return refusal.what();
    }
  }

 private:
  using Wide = unsigned __int128;  // so that no product below can wrap

  struct Tensor {
    Wide bytes;
    std::uint64_t offset;
  };

  explicit StreamingGgufReader(std::istream& in) : in_(in) {}

  static void require(bool holds, const char* rule) {
    if (!holds) throw std::runtime_error{rule};
  }

  std::uint64_t number(int width) {
    std::uint64_t value = 0;
    for (int i = 0; i < width; ++i) {
      const int byte = in_.get();
      require(byte != std::istream::traits_type::eof(), "the stream ends inside a number");
      value += static_cast<std::uint64_t>(byte) << (8 * i);
      ++position_;
    }
    return value;
  }

  void skip(Wide count) {
    while (count > 0) {
      const auto chunk = static_cast<std::streamsize>(std::min<Wide>(count, 1 << 20));
      in_.ignore(chunk);
      require(in_.gcount() == chunk, "the stream ends inside data");
      position_ += static_cast<std::uint64_t>(chunk);
      count -= static_cast<Wide>(chunk);
    }
  }

  std::string name(std::uint64_t most) {
    const std::uint64_t length = number(8);
    require(length >= 1 && length <= most, "length of a name");
    std::string text;
    for (std::uint64_t i = 0; i < length; ++i) text += static_cast<char>(number(1));
    return text;
  }

  void elements(std::uint64_t type, std::uint64_t count, int depth = 1) {
    static const std::map<std::uint64_t, int> widths{{0, 1}, {1, 1}, {2, 2}, {3, 2}, {4, 4}, {5, 4}, {6, 4}, {10, 8}, {11, 8}, {12, 8}};
    if (type == 8) {
      for (std::uint64_t i = 0; i < count; ++i) skip(number(8));
    } else if (type == 7) {
      for (std::uint64_t i = 0; i < count; ++i) require(number(1) < 2, "a bool is 0 or 1");
    } else if (type == 9) {
      require(depth < 16, "arrays in at most 16 arrays");
      for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint64_t inner = number(4);
        elements(inner, number(8), depth + 1);
      }
    } else {
      require(widths.count(type) == 1, "type of a value");
      skip(Wide{count} * static_cast<Wide>(widths.at(type)));
    }
  }

  void entry() {
    const std::string key = name(65535);
    require(keys_.insert(key).second, "each key once");
    std::uint64_t type = number(4);
    if (key == "general.alignment") {
      static const std::map<std::uint64_t, int> widths{{0, 1}, {1, 1}, {2, 2}, {3, 2}, {4, 4}, {5, 4}, {10, 8}, {11, 8}};
      require(widths.count(type) == 1, "the alignment is an integer");
      alignment_ = number(widths.at(type));
      require(alignment_ >= 8 && alignment_ <= 65536 && (alignment_ & (alignment_ - 1)) == 0, "the alignment is a power of two");
      return;
    }
    std::uint64_t count = 1;
    if (type == 9) {
      type = number(4);
      count = number(8);
    }
    elements(type, count);
  }

  void tensor() {
    struct Format {
      std::uint64_t values, bytes;
    };
    // Every format that kvpage decodes: number in the file -> values and bytes of one block.
    static const std::map<std::uint64_t, Format> formats{
        {0, {1, 4}},      {1, {1, 2}},      {2, {32, 18}},    {3, {32, 20}},    {6, {32, 22}},    {7, {32, 24}},
        {8, {32, 34}},    {10, {256, 84}},  {11, {256, 110}}, {12, {256, 144}}, {13, {256, 176}}, {14, {256, 210}},
        {20, {32, 18}},   {23, {256, 136}}, {30, {1, 2}},     {34, {256, 54}},  {35, {256, 66}},  {39, {32, 17}}};
    require(tensor_names_.insert(name(64)).second, "each tensor name once");
    const std::uint64_t num_dims = number(4);
    require(num_dims >= 1 && num_dims <= 4, "1 to 4 dimensions");
    Wide values = 1;
    std::uint64_t row = 0;
    for (std::uint64_t i = 0; i < num_dims; ++i) {
      const std::uint64_t dim = number(8);
      require(dim >= 1 && dim < (std::uint64_t{1} << 63), "a dimension is positive");
      values *= dim;
      require(values < (Wide{1} << 63), "the number of values fits");
      if (i == 0) row = dim;
    }
    const auto format = formats.find(number(4));
    require(format != formats.end(), "a known tensor type");
    require(row % format->second.values == 0, "whole blocks in each row");
    tensors_.push_back({values / format->second.values * format->second.bytes, number(8)});
  }

  void read() {
    require(number(4) == 0x46554747u, "the magic bytes");
    const std::uint64_t version = number(4);
    require(version == 2 || version == 3, "version 2 or 3");
    const std::uint64_t num_tensors = number(8);
    const std::uint64_t num_entries = number(8);
    require(num_tensors <= 65536 && num_entries <= 65536, "sane counts");
    for (std::uint64_t i = 0; i < num_entries; ++i) entry();
    for (std::uint64_t i = 0; i < num_tensors; ++i) tensor();
    if (num_tensors == 0) return;
    skip((alignment_ - position_ % alignment_) % alignment_);
    std::sort(tensors_.begin(), tensors_.end(), [](const Tensor& a, const Tensor& b) { return a.offset < b.offset; });
    Wide used = 0;
    for (const Tensor& tensor : tensors_) {
      require(tensor.offset % alignment_ == 0, "aligned offsets");
      require(tensor.offset >= used, "no overlap");
      skip(tensor.offset - used + tensor.bytes);
      used = tensor.offset + tensor.bytes;
    }
  }

  std::istream& in_;
  std::uint64_t position_ = 0;
  std::uint64_t alignment_ = 32;
  std::set<std::string> keys_;
  std::set<std::string> tensor_names_;
  std::vector<Tensor> tensors_;
};

}  // namespace kvpage_test
