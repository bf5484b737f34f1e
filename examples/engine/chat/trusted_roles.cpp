/// \file Trust of roles.
#include "engine/chat/trusted_roles.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace kvpage::engine::chat {
namespace {

Value with_trusted_role(const Value& message) {
  const Dict* const fields = message.as_dict();
  const Value* const role = fields != nullptr ? fields->find("role") : nullptr;
  const TrustedText* const text = role != nullptr ? role->as_text() : nullptr;
  if (text == nullptr || std::find(kKnownRoles.begin(), kKnownRoles.end(), text->bytes()) == kKnownRoles.end()) return message;
  std::vector<Dict::Entry> entries = fields->entries();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (&fields->entries()[i].value == role) entries[i].value = Value::text(TrustedText::trusted(text->bytes()));
  }
  return Value::dict(std::move(entries));
}

}  // namespace

Value with_trusted_roles(const Value& messages) {
  const List* const list = messages.as_list();
  if (list == nullptr) return messages;
  std::vector<Value> items;
  items.reserve(list->items.size());
  std::transform(list->items.begin(), list->items.end(), std::back_inserter(items), with_trusted_role);
  return Value::list(std::move(items), list->form);
}

}  // namespace kvpage::engine::chat
