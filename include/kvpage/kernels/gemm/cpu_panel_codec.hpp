/// \file Writing one weight row into a panel, and reading it back.
#pragma once

#include <kvpage/kernels/gemm/cpu_panel_layout.hpp>
#include <kvpage/precision/minifloat.hpp>

#include <bit>
#include <cstring>

KVPAGE_BEGIN_NAMESPACE
namespace detail {

/// One step of one row: the only place that knows the byte order of PanelLayout outside the kernels.
template <PanelShape kShape>
struct PanelCodec {
  static constexpr PanelLayout kLayout{kShape};

  /// Writes row `row` < 32 of the step. Requires: the step's bytes were zero, or held this row before.
  static void write(const PanelBlock& block, int row, std::byte* step) noexcept {
    if constexpr (kShape.has_super_scale()) {
      write_number(step, row, encode_scale(block.super_scale));
      if constexpr (kShape.has_minimum) write_number(step + kLayout.super_minimum_offset(), row, encode_scale(block.super_minimum));
    }
    for (int g = 0; g < kLayout.groups(); ++g) write_group(block, g, row, step);
    for (int s = 0; s < kLayout.sub_blocks(); ++s) {
      write_codes(block.codes + 32 * s, step + kLayout.code_offset(s) + 64 * (row / 16) + 4 * (row % 16));
    }
  }

  /// The weights of row `row` < 32 of the step, as the format's decode gives them.
  static void read(const std::byte* step, int row, float* out) noexcept {
    for (int i = 0; i < kShape.block; ++i) {
      const int g = i / kShape.group;
      const std::byte* codes = step + kLayout.code_offset(i / 32) + 64 * (row / 16) + 4 * (row % 16);
      const int code = read_code(codes, i % 32 / 4, i % 4);
      const int level = kShape.has_levels ? kShape.levels[static_cast<std::size_t>(code & 15)] : code;
      out[i] = read_scale(step, g, row) * static_cast<float>(level - kShape.offset);
      if constexpr (kShape.has_minimum) out[i] += read_minimum(step, g, row);
    }
  }

 private:
  template <class T>
  static void write_number(std::byte* numbers, int index, T value) noexcept {
    std::memcpy(numbers + index * static_cast<int>(sizeof(T)), &value, sizeof(T));
  }
  template <class T>
  static T read_number(const std::byte* numbers, int index) noexcept {
    T value;
    std::memcpy(&value, numbers + index * static_cast<int>(sizeof(T)), sizeof(T));
    return value;
  }

  /// encode_half of one scale: a branch to the common case, a normal half, is faster here than the branch-free form that loops over
  /// codes want.
  static std::uint16_t encode_scale(float value) noexcept {
    constexpr std::uint32_t kLeast = 0x38800000u, kBeyond = 0x47800000u;  // 2^-14, 2^16
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude - kLeast >= kBeyond - kLeast || (bits & 0x1fffu) != 0) return encode_half(value);
    return static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | (magnitude - (kLeast - 0x00800000u)) >> 13);
  }

  static void write_group(const PanelBlock& block, int g, int row, std::byte* step) noexcept {
    std::byte* scales = step + kLayout.scale_offset(g);
    std::byte* minima = scales + kLayout.minimum_distance();
    if constexpr (kShape.has_super_scale()) {
      write_number(scales, row, static_cast<std::uint8_t>(static_cast<std::int32_t>(block.scale[g])));
      if constexpr (kShape.has_minimum) write_number(minima, row, static_cast<std::uint8_t>(block.minimum[g]));
    } else if constexpr (kShape.scale == PanelScale::kFloat) {
      write_number(scales, row, block.scale[g]);
      if constexpr (kShape.has_minimum) write_number(minima, row, block.minimum[g]);
    } else {
      write_number(scales, row, encode_scale(block.scale[g]));
      if constexpr (kShape.has_minimum) write_number(minima, row, encode_scale(block.minimum[g]));
    }
  }

  static float read_scale(const std::byte* step, int g, int row) noexcept {
    const std::byte* scales = step + kLayout.scale_offset(g);
    if constexpr (kShape.scale == PanelScale::kSuperUnsigned) {
      return decode_half(read_number<std::uint16_t>(step, row)) * static_cast<float>(read_number<std::uint8_t>(scales, row));
    } else if constexpr (kShape.scale == PanelScale::kSuperSigned) {
      return decode_half(read_number<std::uint16_t>(step, row)) * static_cast<float>(read_number<std::int8_t>(scales, row));
    } else if constexpr (kShape.scale == PanelScale::kFloat) {
      return read_number<float>(scales, row);
    } else {
      return decode_half(read_number<std::uint16_t>(scales, row));
    }
  }

  static float read_minimum(const std::byte* step, int g, int row) noexcept {
    const std::byte* minima = step + kLayout.scale_offset(g) + kLayout.minimum_distance();
    if constexpr (kShape.has_super_scale()) {
      const float super = decode_half(read_number<std::uint16_t>(step + kLayout.super_minimum_offset(), row));
      return super * static_cast<float>(read_number<std::uint8_t>(minima, row));
    } else if constexpr (kShape.scale == PanelScale::kFloat) {
      return read_number<float>(minima, row);
    } else {
      return decode_half(read_number<std::uint16_t>(minima, row));
    }
  }

  /// codes [32] to the words of one lane, which start at `lane`.
  static void write_codes(const std::uint8_t* codes, std::byte* lane) noexcept {
    std::uint32_t quad[8];
    std::memcpy(quad, codes, sizeof quad);
    if constexpr (kShape.code_bits == 8) {
      for (int j = 0; j < 8; ++j) write_number(lane + 128 * j, 0, quad[j]);
    }
    if constexpr (kLayout.has_nibbles()) {
      for (int j = 0; j < 4; ++j) {
        write_number(lane + 128 * j, 0, (quad[j] & 0x0f0f0f0fu) | (quad[j + 4] & 0x0f0f0f0fu) << 4);
      }
    }
    if constexpr (kLayout.has_pairs()) {
      for (int z = 0; z < 2; ++z) {
        std::uint32_t word = 0;
        for (int j = 0; j < 4; ++j) word |= (quad[4 * z + j] >> kLayout.pair_low_bit() & 0x03030303u) << (2 * j);
        write_number(lane + kLayout.pair_offset() + 128 * z, 0, word);
      }
    }
    if constexpr (kLayout.has_singles()) {
      std::uint32_t word = 0;
      for (int j = 0; j < 8; ++j) word |= (quad[j] >> kLayout.single_low_bit() & 0x01010101u) << j;
      write_number(lane + kLayout.single_offset(), 0, word);
    }
  }

  /// The code of k = 4j + c in the lane that starts at `lane`.
  static int read_code(const std::byte* lane, int j, int c) noexcept {
    const auto byte = [&](int offset) { return static_cast<int>(lane[offset + c]); };
    int code = 0;
    if constexpr (kShape.code_bits == 8) code = byte(128 * j);
    if constexpr (kLayout.has_nibbles()) code = byte(128 * (j % 4)) >> (j < 4 ? 0 : 4) & 15;
    if constexpr (kLayout.has_pairs()) {
      code |= (byte(kLayout.pair_offset() + 128 * (j / 4)) >> (2 * (j % 4)) & 3) << kLayout.pair_low_bit();
    }
    if constexpr (kLayout.has_singles()) code |= (byte(kLayout.single_offset()) >> j & 1) << kLayout.single_low_bit();
    return code;
  }
};

}  // namespace detail
KVPAGE_END_NAMESPACE
