/// \file What a chat template may cost at most, so that a hostile model file can neither hang nor exhaust the process.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvpage::engine::chat {

inline constexpr std::size_t kMaxSourceBytes = 256 * 1024;
/// One step = one evaluated node, one visited element, or kBytesPerStep bytes of text made or scanned.
inline constexpr std::int64_t kMaxSteps = 1'000'000;
inline constexpr std::size_t kBytesPerStep = 256;
/// For the output and for every string on the way to it.
inline constexpr std::size_t kMaxOutputBytes = 1'000'000;
/// Nesting of statements and expressions, of values, and of macro calls.
inline constexpr int kMaxDepth = 64;
/// Nodes that are being evaluated at one time, over all macro calls: bounds the native stack.
inline constexpr int kMaxEvalDepth = 400;
/// map('map', 'map', ...) calls itself once per argument.
inline constexpr std::size_t kMaxArguments = 64;
inline constexpr std::int64_t kMaxRange = 10'000;
/// 32-bit limbs of an integer: 4,296 decimal digits; Python writes at most 4,300.
inline constexpr std::size_t kMaxIntegerLimbs = 446;

}  // namespace kvpage::engine::chat
