/// \file StepProfile: where the time of steps goes, operation by operation.
#pragma once

#include "engine/backend/step_operation.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace kvpage::engine {

/// The least that an operation must do: every byte once, every product once.
struct OperationCost {
  std::int64_t bytes = 0;       ///< of weights, activations and cache, read or written
  std::int64_t code_macs = 0;   ///< multiply-adds of byte codes
  std::int64_t float_macs = 0;  ///< multiply-adds of floats

  constexpr OperationCost& operator+=(const OperationCost& other) noexcept {
    bytes += other.bytes, code_macs += other.code_macs, float_macs += other.float_macs;
    return *this;
  }
};

/// All launches of one operation.
struct OperationProfile {
  std::int64_t launches = 0;
  std::int64_t time_ns = 0;
  OperationCost cost{};
};

/// Steps of one kind. `total_ns` is wall time from the begin of each step to the begin of the next one.
struct PhaseProfile {
  std::int64_t steps = 0;
  std::int64_t rows = 0;
  std::int64_t total_ns = 0;
  std::array<OperationProfile, kStepOperationNames.size()> operations{};

  OperationProfile& operator[](StepOperation operation) noexcept { return operations[static_cast<std::size_t>(operation)]; }
  const OperationProfile& operator[](StepOperation operation) const noexcept { return operations[static_cast<std::size_t>(operation)]; }
};

/// What LanguageModel::profile_into fills.
struct StepProfile {
  PhaseProfile prefill;  ///< steps in which a sequence has more than one row
  PhaseProfile decode;   ///< steps of one row per sequence
};

}  // namespace kvpage::engine
