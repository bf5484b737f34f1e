/// \file JSON into template values.
#pragma once

#include "engine/chat/template_error.hpp"
#include "engine/chat/value.hpp"

#include <kvpage/base/expected.hpp>

#include <nlohmann/json_fwd.hpp>

namespace kvpage::engine {

/// The same value for templates; maps keep the order of their keys.
/// Errors: kLimit when lists and maps nest deeper than chat::kMaxDepth; kRuntime for an integer beyond 64 signed bits.
[[nodiscard]] Expected<chat::Value, TemplateError> template_value(const nlohmann::ordered_json& json);

}  // namespace kvpage::engine
