/// \file Construction, truth and look-up of template values.
#include "engine/chat/value.hpp"

#include "engine/chat/limits.hpp"
#include "engine/chat/template_error.hpp"

#include <algorithm>
#include <numeric>

namespace kvpage::engine::chat {
namespace {

int container_depth(int deepest_element) {
  if (deepest_element >= kMaxDepth) {
    fail(TemplateErrorKind::kLimit, "a value nests lists and maps more than " + std::to_string(kMaxDepth) + " deep");
  }
  return deepest_element + 1;
}

}  // namespace

Dict::Dict(std::vector<Entry> entries) : by_key_(entries.size()) {
  const auto key_of = [&](std::uint32_t i) -> const std::string& { return entries[i].key.bytes(); };
  std::iota(by_key_.begin(), by_key_.end(), 0u);
  std::stable_sort(by_key_.begin(), by_key_.end(), [&](auto a, auto b) { return key_of(a) < key_of(b); });

  std::vector<bool> keep(entries.size(), true);
  for (std::size_t i = 1; i < by_key_.size(); ++i) {
    if (key_of(by_key_[i - 1]) != key_of(by_key_[i])) continue;
    entries[by_key_[i - 1]].value = std::move(entries[by_key_[i]].value);
    keep[by_key_[i]] = false;
    by_key_[i] = by_key_[i - 1];  // a third one lands at the first, too
  }
  int deepest = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!keep[i]) continue;
    deepest = std::max(deepest, entries[i].value.depth());
    entries_.push_back(std::move(entries[i]));
  }
  depth_ = container_depth(deepest);
  by_key_.resize(entries_.size());
  std::iota(by_key_.begin(), by_key_.end(), 0u);
  std::sort(by_key_.begin(), by_key_.end(), [&](auto a, auto b) { return entries_[a].key.bytes() < entries_[b].key.bytes(); });
}

const Value* Dict::find(std::string_view key) const {
  const auto at = std::lower_bound(by_key_.begin(), by_key_.end(), key,
                                   [&](std::uint32_t i, std::string_view k) { return entries_[i].key.bytes() < k; });
  return at != by_key_.end() && entries_[*at].key.bytes() == key ? &entries_[*at].value : nullptr;
}

Value* Namespace::find(std::string_view name) {
  const auto at = std::find_if(attributes.begin(), attributes.end(), [&](const auto& entry) { return entry.first == name; });
  return at != attributes.end() ? &at->second : nullptr;
}

void Namespace::set(std::string_view name, Value value) {
  if (Value* held = find(name)) {
    *held = std::move(value);
  } else {
    attributes.emplace_back(std::string{name}, std::move(value));
  }
}

Value Value::list(std::vector<Value> items, ListForm form) {
  int deepest = 0;
  for (const Value& item : items) deepest = std::max(deepest, item.depth());
  const int depth = container_depth(deepest);
  return Value{std::make_shared<const List>(List{form, std::move(items), depth})};
}

Value Value::dict(std::vector<Dict::Entry> entries) { return Value{std::make_shared<const Dict>(std::move(entries))}; }

int Value::depth() const {
  if (const List* list = as_list()) return list->depth;
  if (const Dict* dict = as_dict()) return dict->depth();
  return 0;
}

bool Value::truthy() const {
  if (is_undefined() || is_none()) return false;
  if (const bool* held = as_bool()) return *held;
  if (const std::int64_t* held = as_integer()) return *held != 0;
  if (const double* held = as_number()) return *held != 0.0;
  if (const TrustedText* held = as_text()) return !held->empty();
  if (const List* held = as_list()) return held->form == ListForm::kIterator || !held->items.empty();
  if (const Dict* held = as_dict()) return !held->entries().empty();
  return true;
}

std::string_view Value::type_name() const {
  if (is_undefined()) return "undefined";
  if (is_none()) return "none";
  if (as_bool() != nullptr) return "boolean";
  if (as_integer() != nullptr) return "integer";
  if (as_number() != nullptr) return "float";
  if (as_text() != nullptr) return "string";
  if (as_dict() != nullptr) return "map";
  if (as_namespace() != nullptr) return "namespace";
  if (as_loop() != nullptr) return "loop";
  switch (as_list()->form) {
    case ListForm::kList: return "list";
    case ListForm::kTuple: return "tuple";
    case ListForm::kRange: return "range";
    case ListForm::kView: return "view of a map";
    case ListForm::kIterator: return "iterator";
  }
  return "list";
}

}  // namespace kvpage::engine::chat
