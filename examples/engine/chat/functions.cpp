/// \file Look-up in the lists of filters, tests and methods.
#include "engine/chat/function_lists.hpp"

#include <algorithm>
#include <string>

namespace kvpage::engine::chat {
namespace {

template <class Entry>
const Entry* find_in(std::span<const Entry> list, std::string_view name) {
  const auto at = std::find_if(list.begin(), list.end(), [&](const Entry& entry) { return entry.name == name; });
  return at != list.end() ? &*at : nullptr;
}

/// What the types of Python have besides: names with blanks around.
constexpr std::string_view kText = " encode maketrans translate ";
constexpr std::string_view kDict = " clear fromkeys pop popitem setdefault update ";
constexpr std::string_view kList = " append clear extend insert pop remove reverse sort ";
constexpr std::string_view kRange = " start stop step count index ";
constexpr std::string_view kView = " isdisjoint mapping ";
constexpr std::string_view kInteger = " as_integer_ratio bit_count conjugate denominator from_bytes imag numerator real to_bytes ";
constexpr std::string_view kFloat = " as_integer_ratio conjugate fromhex hex imag real ";

std::string_view unsupported_names(const Value& receiver) {
  if (receiver.as_text() != nullptr) return kText;
  if (receiver.as_dict() != nullptr) return kDict;
  if (receiver.as_number() != nullptr) return kFloat;
  if (receiver.as_integer() != nullptr || receiver.as_big() != nullptr || receiver.as_bool() != nullptr) return kInteger;
  const List* list = receiver.as_list();
  if (list == nullptr) return {};
  switch (list->form) {
    case ListForm::kList: return kList;
    case ListForm::kRange: return kRange;
    case ListForm::kView: return kView;
    default: return {};
  }
}

}  // namespace

const NamedFunction* find_filter(std::string_view name) {
  for (const auto list : {text_filters(), collection_filters(), selection_filters(), number_filters()}) {
    if (const auto* found = find_in(list, name)) return found;
  }
  return nullptr;
}

const NamedTest* find_test(std::string_view name) { return find_in(value_tests(), name); }

const NamedFunction& require_filter(std::string_view name) {
  const NamedFunction* found = find_filter(name);
  if (found == nullptr || found->function == nullptr) {
    fail(TemplateErrorKind::kUnsupported, "the filter '" + std::string{name} + "' is not supported");
  }
  return *found;
}

const NamedTest& require_test(std::string_view name) {
  const NamedTest* found = find_test(name);
  if (found == nullptr) fail(TemplateErrorKind::kUnsupported, "the test '" + std::string{name} + "' is not supported");
  return *found;
}

const NamedFunction* find_method(const Value& receiver, std::string_view name) {
  if (receiver.as_text() != nullptr) return find_in(text_methods(), name);
  if (receiver.as_dict() != nullptr) return find_in(dict_methods(), name);
  const List* list = receiver.as_list();
  if (list == nullptr) return find_in(number_methods(receiver), name);
  return list->form <= ListForm::kTuple ? find_in(list_methods(list->form), name) : nullptr;
}

bool is_python_attribute(const Value& receiver, std::string_view name) {
  return unsupported_names(receiver).find(" " + std::string{name} + " ") != std::string_view::npos;
}

}  // namespace kvpage::engine::chat
