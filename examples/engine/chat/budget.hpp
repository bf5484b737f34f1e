/// \file Budget: counts the steps of one rendering and ends it when the cap is reached.
#pragma once

#include "engine/chat/limits.hpp"
#include "engine/chat/template_error.hpp"

namespace kvpage::engine::chat {

class Budget {
 public:
  /// Errors: kLimit when the steps are used up.
  void charge(std::size_t steps) {
    if (steps > static_cast<std::size_t>(steps_left_)) {
      fail(TemplateErrorKind::kLimit, "needs more than " + std::to_string(kMaxSteps) + " steps; shorten the conversation or the template");
    }
    steps_left_ -= static_cast<std::int64_t>(steps);
  }

  /// For work that is linear in the length of a text.
  void charge_bytes(std::size_t bytes) { charge(1 + bytes / kBytesPerStep); }

 private:
  std::int64_t steps_left_ = kMaxSteps;
};

}  // namespace kvpage::engine::chat
