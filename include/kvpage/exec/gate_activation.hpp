/// \file GateActivation: the functions that open or close the gate of a gated linear unit.
#pragma once

#include <kvpage/base/config.hpp>

#include <cstdint>

KVPAGE_BEGIN_NAMESPACE

/// The function that opens or closes the gate.
enum class GateActivation : std::uint8_t {
  kSilu,      ///< x / (1 + e^-x)
  kGeluTanh,  ///< x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
};

KVPAGE_END_NAMESPACE
