/// \file Names of ends and refusals, as reports, traces and scripts know them.
#pragma once

#include <kvpage/sched/request.hpp>

#include <string_view>

namespace kvpage::engine {

constexpr std::string_view name_of(FinishReason reason) noexcept {
  switch (reason) {
    case FinishReason::kNone: return "none";
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kCapacity: return "capacity";
    case FinishReason::kCancelled: return "cancelled";
    case FinishReason::kDeadline: return "deadline";
    case FinishReason::kError: return "error";
  }
  return "";
}

}  // namespace kvpage::engine
