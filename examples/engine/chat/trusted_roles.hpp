/// \file with_trusted_roles: the roles of messages that count as written by the template.
#pragma once

#include "engine/chat/value.hpp"

#include <array>
#include <string_view>

namespace kvpage::engine::chat {

/// The roles that templates of published models compare with or write. A closed list, not a form: a marker such as
/// `'<|' + role + '|>'` becomes one token with these, and `im_end` or `endoftext` are no roles.
inline constexpr std::array<std::string_view, 9> kKnownRoles{"system", "developer", "user",    "assistant",  "tool",
                                                             "function", "model",    "ipython", "observation"};

/// `messages` in which the `role` of each message is trusted if it is exactly one of kKnownRoles. Contents, names, tool calls
/// and other roles stay as they are, so nothing that a user writes is trusted.
Value with_trusted_roles(const Value& messages);

}  // namespace kvpage::engine::chat
