/// \file Filters and methods of lists and maps.
#include "engine/chat/function_lists.hpp"

#include "engine/chat/format_value.hpp"
#include "engine/chat/operators.hpp"
#include "engine/chat/text_ops.hpp"

#include <algorithm>

namespace kvpage::engine::chat {
namespace {

Value pairs_of(Budget& budget, const Dict& dict, ListForm form) {
  budget.charge(1 + dict.entries().size());
  std::vector<Value> pairs;
  for (const Dict::Entry& entry : dict.entries()) pairs.push_back(Value::list({entry.key, entry.value}, ListForm::kTuple));
  return Value::list(std::move(pairs), form);
}

Value length_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  return Value::integer(static_cast<std::int64_t>(length(budget, self)));
}

Value default_filter(Budget&, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"default_value", "boolean"}};
  const bool replaces = self.is_undefined() || (bound.truth(1, false) && !self.truthy());
  if (!replaces) return self;
  return bound[0] != nullptr ? *bound[0] : Value::text(TrustedText{});
}

Value first_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  if (self.as_text() != nullptr) return subscript(budget, self, Value::integer(0));
  if (const List* list = self.as_list(); list != nullptr && list->form == ListForm::kIterator) {
    return list->taken < list->items.size() ? list->items[list->taken++] : Value::undefined();
  }
  const std::vector<Value> items = elements(budget, self);
  return items.empty() ? Value::undefined() : items.front();
}

Value last_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  if (self.as_list() != nullptr && self.as_list()->form == ListForm::kIterator) fail_runtime("last of an iterator; add |list before");
  if (self.as_text() != nullptr) return subscript(budget, self, Value::integer(-1));
  const std::vector<Value> items = elements(budget, self);
  return items.empty() ? Value::undefined() : items.back();
}

Value list_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  return Value::list(elements(budget, self));
}

Value reverse_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  if (self.as_text() != nullptr) return slice(budget, self, {std::nullopt, std::nullopt, -1});
  std::vector<Value> items = elements(budget, self);
  std::reverse(items.begin(), items.end());
  const bool was_iterator = self.as_list() != nullptr && self.as_list()->form == ListForm::kIterator;
  return Value::list(std::move(items), was_iterator ? ListForm::kList : ListForm::kIterator);
}

Value items_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  if (self.is_undefined()) return Value::list({}, ListForm::kIterator);
  if (self.as_dict() == nullptr) fail_runtime("items needs a map, not " + std::string{self.type_name()});
  return pairs_of(budget, *self.as_dict(), ListForm::kIterator);
}

Value batch_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"linecount", "fill_with"}, 1};
  const std::int64_t width = bound.integer(0, 1);
  if (width < 1 || width > kMaxRange)
    fail_runtime("batch needs a size from 1 to " + std::to_string(kMaxRange) + ", not " + std::to_string(width));
  std::vector<Value> batches, batch;
  const auto flush = [&] { batches.push_back(Value::list(std::exchange(batch, {}))); };
  for (const Value& item : elements(budget, self)) {
    if (batch.size() == static_cast<std::size_t>(width)) flush();
    batch.push_back(item);
  }
  if (!batch.empty() && bound[1] != nullptr && !bound[1]->is_none()) batch.resize(static_cast<std::size_t>(width), *bound[1]);
  if (!batch.empty()) flush();
  return Value::list(std::move(batches), ListForm::kIterator);
}

Value items_method(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  return pairs_of(budget, *self.as_dict(), ListForm::kView);
}

Value keys_method(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  return Value::list(elements(budget, self), ListForm::kView);
}

Value values_method(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  std::vector<Value> values;
  for (const Dict::Entry& entry : self.as_dict()->entries()) budget.charge(1), values.push_back(entry.value);
  return Value::list(std::move(values), ListForm::kView);
}

Value get_method(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"key", "default"}, 1};
  const Value* held = find_key(budget, *self.as_dict(), *bound[0]);
  if (held != nullptr) return *held;
  return bound[1] != nullptr ? *bound[1] : Value::none();
}

Value copy_method(Budget&, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  return self;
}

Value index_method(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"value", "start", "stop"}, 1};
  const std::vector<Value>& items = self.as_list()->items;
  const auto size = static_cast<std::int64_t>(items.size());
  const auto place = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size); };
  for (auto i = static_cast<std::size_t>(place(bound.integer(1, 0))); i < static_cast<std::size_t>(place(bound.integer(2, size))); ++i) {
    if (equal(budget, items[i], *bound[0])) return Value::integer(static_cast<std::int64_t>(i));
  }
  fail_runtime("index: the list does not hold this value");
}

Value count_method(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"value"}, 1};
  const std::vector<Value>& items = self.as_list()->items;
  return Value::integer(std::count_if(items.begin(), items.end(), [&](const Value& item) { return equal(budget, item, *bound[0]); }));
}

/// As many lists as asked for, of equal lengths as far as possible.
Value slice_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"slices", "fill_with"}, 1};
  const std::int64_t given = bound.integer(0, 1);
  if (given == 0 || given > kMaxRange)
    fail_runtime("slice needs a count from 1 to " + std::to_string(kMaxRange) + ", not " + std::to_string(given));
  const std::vector<Value> items = elements(budget, self);
  std::vector<Value> slices;
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(given, 0));
  budget.charge(count + 1);
  std::size_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const bool has_extra = i < items.size() % count;
    const std::size_t end = at + items.size() / count + (has_extra ? 1 : 0);
    std::vector<Value> part(items.begin() + static_cast<std::ptrdiff_t>(at), items.begin() + static_cast<std::ptrdiff_t>(end));
    if (bound[1] != nullptr && !bound[1]->is_none() && !has_extra) part.push_back(*bound[1]);
    slices.push_back(Value::list(std::move(part)));
    at = end;
  }
  return Value::list(std::move(slices), ListForm::kIterator);
}

Value attr_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"name"}, 1};
  if (bound.text(0) == nullptr) fail_runtime("attr needs the name of an attribute");
  const std::string& name = bound.text(0)->bytes();
  require_public_key(name);
  if (self.as_dict() != nullptr && find_method(self, name) == nullptr) return Value::undefined();  // attr sees no keys
  return attribute(budget, self, name);
}

constexpr NamedFunction kFilters[] = {
    {"attr", attr_filter},       {"batch", batch_filter},   {"count", length_filter}, {"d", default_filter},
    {"default", default_filter}, {"first", first_filter},   {"items", items_filter},  {"last", last_filter},
    {"length", length_filter},   {"list", list_filter},     {"reverse", reverse_filter}, {"slice", slice_filter},
};
constexpr NamedFunction kDictMethods[] = {
    {"copy", copy_method}, {"get", get_method}, {"items", items_method}, {"keys", keys_method}, {"values", values_method}};
constexpr NamedFunction kListMethods[] = {{"count", count_method}, {"index", index_method}, {"copy", copy_method}};

}  // namespace

std::span<const NamedFunction> collection_filters() { return kFilters; }
std::span<const NamedFunction> dict_methods() { return kDictMethods; }
std::span<const NamedFunction> list_methods(ListForm form) {
  return std::span<const NamedFunction>{kListMethods}.first(form == ListForm::kTuple ? 2 : 3);
}

}  // namespace kvpage::engine::chat
