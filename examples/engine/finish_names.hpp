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

constexpr std::string_view name_of(RefusalKind kind) noexcept {
  switch (kind) {
    case RefusalKind::kEmptyPrompt: return "empty_prompt";
    case RefusalKind::kBadCount: return "bad_count";
    case RefusalKind::kContextLimit: return "context_limit";
    case RefusalKind::kNeverFits: return "never_fits";
    case RefusalKind::kDuplicateId: return "duplicate_id";
    case RefusalKind::kQueueFull: return "queue_full";
    case RefusalKind::kQueueTokensFull: return "queue_tokens_full";
    case RefusalKind::kTenantFull: return "tenant_full";
    case RefusalKind::kShuttingDown: return "shutting_down";
    case RefusalKind::kBadParameter: return "bad_parameter";
    case RefusalKind::kInfeasible: return "infeasible";
  }
  return "";
}

}  // namespace kvpage::engine
