/// \file Little-endian fields of a weight block.
#pragma once

#include <kvpage/precision/minifloat.hpp>

#include <cstddef>

KVPAGE_BEGIN_NAMESPACE

namespace detail {
KVPAGE_HD constexpr std::int32_t load_u8(const std::byte* field) noexcept { return static_cast<std::int32_t>(*field); }

KVPAGE_HD constexpr std::int32_t load_i8(const std::byte* field) noexcept {
  return static_cast<std::int32_t>(static_cast<std::int8_t>(*field));
}

KVPAGE_HD constexpr std::uint16_t load_u16(const std::byte* field) noexcept {
  return static_cast<std::uint16_t>(static_cast<std::uint32_t>(field[0]) | static_cast<std::uint32_t>(field[1]) << 8);
}

KVPAGE_HD constexpr std::uint32_t load_u32(const std::byte* field) noexcept {
  return static_cast<std::uint32_t>(load_u16(field)) | static_cast<std::uint32_t>(load_u16(field + 2)) << 16;
}

/// decode_half of one field: a branch to the common case, a normal half, is faster here than the branch-free form that loops over codes
/// want.
KVPAGE_HD constexpr float load_half(const std::byte* field) noexcept {
  const std::uint16_t code = load_u16(field);
  const std::uint32_t magnitude = code & 0x7FFFu;
  if (magnitude - 0x0400u >= 0x7800u) return decode_half(code);
  return bits_to_float((code & 0x8000u) << 16 | ((magnitude << 13) + 0x3800'0000u));
}

/// True unless the 16-bit IEEE field is NaN or infinite.
KVPAGE_HD constexpr bool half_is_finite(const std::byte* field) noexcept { return (load_u16(field) & 0x7C00u) != 0x7C00u; }
}  // namespace detail

KVPAGE_END_NAMESPACE
