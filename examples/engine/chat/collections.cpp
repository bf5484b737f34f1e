/// \file Elements of template values, and the filters and methods of lists and maps.
#include "engine/chat/functions.hpp"
#include "engine/chat/text.hpp"
#include "engine/chat/value.hpp"

#include <algorithm>
#include <utility>

namespace kvpage::engine::chat {
namespace {

[[noreturn]] void fail_missing(const Undefined& missing) {
  fail_runtime(missing.name.empty() ? "an undefined value has no elements" : "'" + std::string{missing.name} + "' is undefined");
}

/// Python's index from the end for negative numbers; nullopt outside of [0, size).
std::optional<std::size_t> position(std::int64_t index, std::size_t size) {
  const auto count = static_cast<std::int64_t>(size);
  if (index < -count || index >= count) return std::nullopt;
  return static_cast<std::size_t>(index < 0 ? index + count : index);
}

Value character(Budget& budget, const TrustedText& text, std::int64_t index) {
  budget.charge_bytes(2 * text.size());
  const auto at = position(index, count_code_points(text.bytes()));
  if (!at) return Value::undefined();
  const std::size_t begin = byte_offset(text.bytes(), *at);
  return Value::text(text.slice(begin, begin + decode_at(text.bytes(), begin).bytes).set_markup(text.is_markup()));
}

struct Steps {
  std::int64_t start, step, count;
};

/// The positions that start:stop:step visits in a sequence of `size` elements.
Steps resolve(const SliceBounds& bounds, std::int64_t size) {
  const std::int64_t step = std::clamp<std::int64_t>(bounds.step.value_or(1), -size - 1, size + 1);
  if (step == 0) fail_runtime("a slice has step zero");
  const std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  const auto clip = [&](std::int64_t index) { return std::clamp(index < 0 ? std::max(index, -size - 1) + size : index, low, high); };
  const std::int64_t start = bounds.start ? clip(*bounds.start) : (step > 0 ? low : high);
  const std::int64_t stop = bounds.stop ? clip(*bounds.stop) : (step > 0 ? high : low);
  const std::int64_t distance = step > 0 ? stop - start : start - stop;
  const std::int64_t stride = step > 0 ? step : -step;
  return {start, step, distance > 0 ? (distance + stride - 1) / stride : 0};
}

Value text_slice(Budget& budget, const TrustedText& text, const SliceBounds& bounds) {
  budget.charge_bytes(2 * text.size());
  const Steps steps = resolve(bounds, static_cast<std::int64_t>(count_code_points(text.bytes())));
  if (steps.count == 0) return Value::text(TrustedText{}.set_markup(text.is_markup()));
  if (steps.step == 1) {
    const std::size_t begin = byte_offset(text.bytes(), static_cast<std::size_t>(steps.start));
    const std::string_view rest = std::string_view{text.bytes()}.substr(begin);
    return Value::text(text.slice(begin, begin + byte_offset(rest, static_cast<std::size_t>(steps.count))).set_markup(text.is_markup()));
  }
  std::vector<std::size_t> offsets;
  for (std::size_t at = 0; at < text.size(); at += decode_at(text.bytes(), at).bytes) offsets.push_back(at);
  budget.charge(static_cast<std::size_t>(steps.count));
  TrustedText result;
  for (std::int64_t i = 0; i < steps.count; ++i) {
    const std::size_t at = offsets[static_cast<std::size_t>(steps.start + i * steps.step)];
    result.append_slice(text, at, at + decode_at(text.bytes(), at).bytes);
  }
  return Value::text(std::move(result.set_markup(text.is_markup())));
}

std::vector<Value> characters(Budget& budget, const TrustedText& text) {
  std::vector<Value> items;
  for (std::size_t at = 0; at < text.size();) {
    budget.charge(1);
    const std::size_t end = at + decode_at(text.bytes(), at).bytes;
    items.push_back(Value::text(text.slice(at, end)));
    at = end;
  }
  return items;
}

/// The value under a name, nullptr if the object has none.
const Value* find_named(Budget& budget, const Value& object, std::string_view name) {
  if (const Dict* dict = object.as_dict()) return find_key(budget, *dict, name);
  if (Namespace* space = object.as_namespace()) {
    budget.charge(search_steps(space->attributes.size(), name));
    return space->find(name);
  }
  const List* list = object.as_list();
  if (list != nullptr && list->is_group && (name == "grouper" || name == "list")) return &list->items[name == "list" ? 1 : 0];
  const Cycler* cycler = object.as_cycler();
  return cycler != nullptr && !cycler->joins && name == "current" ? &cycler->items[cycler->at] : nullptr;
}

Value named_element(Budget& budget, const Value& object, std::string_view name) {
  const Value* held = find_named(budget, object, name);
  if (held != nullptr) return *held;
  const auto* method = find_method(object, name);
  return method != nullptr ? Value::method(object, method->name) : Value::undefined();
}

}  // namespace

Value subscript(Budget& budget, const Value& object, const Value& index) {
  if (const Undefined* missing = object.as_undefined()) fail_missing(*missing);
  if (const TrustedText* name = index.as_text()) return named_element(budget, object, name->bytes());
  if (const Dict* dict = object.as_dict()) {
    charge_key(budget, index, 1);
    const Value* held = is_key(index) ? find_key(budget, *dict, index) : nullptr;
    return held != nullptr ? *held : Value::undefined();
  }
  const auto whole = index.whole();
  const auto number = whole ? whole->narrow() : std::nullopt;
  if (!number) return Value::undefined();
  if (const TrustedText* text = object.as_text()) return character(budget, *text, *number);
  const List* list = object.as_list();
  if (list == nullptr || list->form > ListForm::kRange) return Value::undefined();
  const auto at = position(*number, list->items.size());
  return at ? list->items[*at] : Value::undefined();
}

Value attribute(Budget& budget, const Value& object, std::string_view name) {
  if (const Undefined* missing = object.as_undefined()) fail_missing(*missing);
  if (is_python_attribute(object, name)) {
    fail(TemplateErrorKind::kUnsupported, "the attribute '" + std::string{name} + "' of a " + std::string{object.type_name()} +
                                              " is not supported; for the key of a map write ['" + std::string{name} + "']");
  }
  if (const auto* method = find_method(object, name)) return Value::method(object, method->name);
  const Value* held = find_named(budget, object, name);
  return held != nullptr ? *held : Value::undefined();  // without the name, which may be shorter-lived than the value
}

Value slice(Budget& budget, const Value& object, const SliceBounds& bounds) {
  if (const Undefined* missing = object.as_undefined()) fail_missing(*missing);
  if (const TrustedText* text = object.as_text()) return text_slice(budget, *text, bounds);
  const List* list = object.as_list();
  if (list == nullptr || list->form > ListForm::kRange)
    fail_runtime("a slice needs a list or string, not " + std::string{object.type_name()});
  const Steps steps = resolve(bounds, static_cast<std::int64_t>(list->items.size()));
  budget.charge(1 + static_cast<std::size_t>(steps.count));
  std::vector<Value> items;
  for (std::int64_t i = 0; i < steps.count; ++i) items.push_back(list->items[static_cast<std::size_t>(steps.start + i * steps.step)]);
  return Value::list(std::move(items), list->form);
}

std::vector<Value> elements(Budget& budget, const Value& value) {
  if (const List* list = value.as_list()) {
    budget.charge(1 + list->items.size());
    if (list->form != ListForm::kIterator) return list->items;  // never written: renderings on other threads may share it
    const auto begin = list->items.begin() + static_cast<std::ptrdiff_t>(std::exchange(list->taken, list->items.size()));
    return {begin, list->items.end()};
  }
  if (const Dict* dict = value.as_dict()) {
    budget.charge(1 + dict->entries().size());
    std::vector<Value> keys;
    for (const Dict::Entry& entry : dict->entries()) keys.push_back(entry.key);
    return keys;
  }
  if (const TrustedText* text = value.as_text()) return characters(budget, *text);
  if (value.is_undefined()) return {};
  fail_runtime(std::string{value.type_name()} + " cannot be iterated");
}

std::size_t length(Budget& budget, const Value& value) {
  if (const TrustedText* text = value.as_text()) {
    budget.charge_bytes(text->size());
    return count_code_points(text->bytes());
  }
  if (const Dict* dict = value.as_dict()) return dict->entries().size();
  if (value.is_undefined()) return 0;
  const List* list = value.as_list();
  if (list == nullptr || list->form == ListForm::kIterator) {
    fail_runtime(std::string{value.type_name()} + " has no length" + (list != nullptr ? "; add |list before" : ""));
  }
  return list->items.size();
}

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
