/// \file JSON into template values.
#pragma once

#include "engine/chat/template_error.hpp"
#include "engine/chat/value.hpp"

#include <kvpage/base/expected.hpp>

#include <string_view>

namespace kvpage::engine {

/// The value that a JSON text describes; maps keep the order of their keys, integers every digit.
/// Errors: kSyntax for what is no JSON or a number beyond 1.8e308; kLimit when lists and maps nest deeper than chat::kMaxDepth.
[[nodiscard]] Expected<chat::Value, TemplateError> template_value(std::string_view json);

}  // namespace kvpage::engine
