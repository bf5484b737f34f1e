/// \file The parts of the function lists, by the kind of value that they work on.
#pragma once

#include "engine/chat/functions.hpp"

#include <span>

namespace kvpage::engine::chat {

std::span<const NamedFunction> text_filters();
std::span<const NamedFunction> text_methods();
std::span<const NamedFunction> number_filters();
std::span<const NamedFunction> collection_filters();
std::span<const NamedFunction> selection_filters();
std::span<const NamedFunction> dict_methods();
std::span<const NamedFunction> list_methods(ListForm form);
std::span<const NamedFunction> number_methods(const Value& number);  ///< empty for what is no number
std::span<const NamedTest> value_tests();

}  // namespace kvpage::engine::chat
