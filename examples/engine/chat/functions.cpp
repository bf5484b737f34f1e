/// \file Look-up in the lists of filters, tests and methods.
#include "engine/chat/function_lists.hpp"

#include <algorithm>
#include <array>

namespace kvpage::engine::chat {
namespace {

template <class Entry>
auto find_in(std::span<const Entry> list, std::string_view name) -> decltype(Entry::function) {
  const auto at = std::find_if(list.begin(), list.end(), [&](const Entry& entry) { return entry.name == name; });
  return at != list.end() ? at->function : nullptr;
}

}  // namespace

ValueFunction find_filter(std::string_view name) {
  for (const auto list : {text_filters(), collection_filters(), selection_filters(), number_filters()}) {
    if (const ValueFunction found = find_in(list, name)) return found;
  }
  return nullptr;
}

TestFunction find_test(std::string_view name) { return find_in(value_tests(), name); }

ValueFunction find_method(const Value& receiver, std::string_view name) {
  if (receiver.as_text() != nullptr) return find_in(text_methods(), name);
  if (receiver.as_dict() != nullptr) return find_in(dict_methods(), name);
  if (receiver.as_list() != nullptr) return find_in(list_methods(), name);
  return nullptr;
}

bool is_method_name(std::string_view name) {
  return find_in(text_methods(), name) != nullptr || find_in(dict_methods(), name) != nullptr || find_in(list_methods(), name) != nullptr;
}

bool hides_key(const Value& receiver, std::string_view name) {
  constexpr std::array<std::string_view, 7> kOtherDictMethods{"clear", "copy", "fromkeys", "pop", "popitem", "setdefault", "update"};
  if (find_method(receiver, name) != nullptr) return true;
  return receiver.as_dict() != nullptr && std::find(kOtherDictMethods.begin(), kOtherDictMethods.end(), name) != kOtherDictMethods.end();
}

}  // namespace kvpage::engine::chat
