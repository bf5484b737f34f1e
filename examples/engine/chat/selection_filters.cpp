/// \file Filters that pick, map, order and fold the elements of a list, optionally by an attribute.
#include "engine/chat/function_lists.hpp"

#include "engine/chat/format_value.hpp"
#include "engine/chat/operators.hpp"
#include "engine/chat/text_ops.hpp"

#include <algorithm>
#include <charconv>

namespace kvpage::engine::chat {
namespace {

/// item.a.b for the path "a.b"; parts made of digits are list positions.
Value at_path(Budget& budget, const Value& item, const Value& path) {
  if (path.as_integer() != nullptr) return subscript(budget, item, path);
  if (path.as_text() == nullptr) fail_runtime("an attribute must be a string or an integer, not " + std::string{path.type_name()});
  static const TrustedText kDot = TrustedText::untrusted(".");
  Value held = item;
  for (const TrustedText& part : split(budget, *path.as_text(), &kDot, -1, false)) {
    const std::string& name = part.bytes();
    require_public_key(name);
    std::int64_t number = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), number);
    const bool is_number = !name.empty() && name[0] != '-' && parsed.ec == std::errc{} && parsed.ptr == name.data() + name.size();
    held = subscript(budget, held, is_number ? Value::integer(number) : Value::text(part));
  }
  return held;
}

/// How filters read what they compare by: an attribute or none, strings in lower case unless `case_sensitive`.
struct KeyOf {
  const Value* path = nullptr;  // nullptr or none: the element itself
  bool case_sensitive = false;
  const Value* fallback = nullptr;  // for an attribute that is missing

  Value attribute(Budget& budget, const Value& item) const {
    if (path == nullptr || path->is_none()) return item;
    const Value held = at_path(budget, item, *path);
    const bool replaces = held.is_undefined() && fallback != nullptr && !fallback->is_none();
    return replaces ? *fallback : held;
  }
  Value operator()(Budget& budget, const Value& item) const {
    const Value key = attribute(budget, item);
    if (case_sensitive || key.as_text() == nullptr) return key;
    return Value::text(recased(budget, *key.as_text(), CaseMap::kLower));
  }
};

struct Keyed {
  Value key;
  Value item;
};

std::vector<Keyed> keyed(Budget& budget, const Value& list, const KeyOf& key_of) {
  std::vector<Keyed> entries;
  for (Value& item : elements(budget, list)) {
    Value key = key_of(budget, item);
    entries.push_back({std::move(key), std::move(item)});
  }
  return entries;
}

void sort_by_key(Budget& budget, std::vector<Keyed>& entries, bool reverse) {
  std::stable_sort(entries.begin(), entries.end(),
                   [&](const Keyed& a, const Keyed& b) { return reverse ? less(budget, b.key, a.key) : less(budget, a.key, b.key); });
}

Value sorted(Budget& budget, std::vector<Keyed> entries, bool reverse) {
  sort_by_key(budget, entries, reverse);
  std::vector<Value> items;
  for (Keyed& entry : entries) items.push_back(std::move(entry.item));
  return Value::list(std::move(items));
}

/// By one attribute or by several in turn, "a,b".
Value sort_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"reverse", "case_sensitive", "attribute"}};
  const bool reverse = bound.truth(0, false), case_sensitive = bound.truth(1, false);
  const TrustedText* paths = bound[2] != nullptr ? bound[2]->as_text() : nullptr;
  if (paths == nullptr) return sorted(budget, keyed(budget, self, {bound[2], case_sensitive}), reverse);
  static const TrustedText kComma = TrustedText::untrusted(",");
  std::vector<Value> parts;
  for (TrustedText& part : split(budget, *paths, &kComma, -1, false)) parts.push_back(Value::text(std::move(part)));
  std::vector<Keyed> entries;
  for (Value& item : elements(budget, self)) {
    std::vector<Value> keys;
    for (const Value& part : parts) keys.push_back(KeyOf{&part, case_sensitive}(budget, item));
    entries.push_back({Value::list(std::move(keys)), std::move(item)});
  }
  return sorted(budget, std::move(entries), reverse);
}

Value groupby_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"attribute", "default", "case_sensitive"}, 1};
  const KeyOf key_of{bound[0], bound.truth(2, false), bound[1]};
  std::vector<Keyed> entries = keyed(budget, self, key_of);
  sort_by_key(budget, entries, false);
  std::vector<Value> groups;
  for (std::size_t at = 0; at < entries.size();) {
    const Value grouper = key_of.attribute(budget, entries[at].item);
    std::vector<Value> members;
    const std::size_t first = at;
    for (; at < entries.size() && equal(budget, entries[first].key, entries[at].key); ++at) members.push_back(entries[at].item);
    if (at == first) members.push_back(entries[at++].item);  // NaN equals nothing
    groups.push_back(Value::list({grouper, Value::list(std::move(members))}, ListForm::kTuple, true));
  }
  return Value::list(std::move(groups));
}

Value dictsort_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"case_sensitive", "by", "reverse"}};
  if (self.as_dict() == nullptr) fail_runtime("dictsort needs a map, not " + std::string{self.type_name()});
  const std::string by = bound.text(1) != nullptr ? bound.text(1)->bytes() : "key";
  if (by != "key" && by != "value") fail_runtime("dictsort sorts by key or value, not by " + by);
  std::vector<Keyed> entries;
  for (const Dict::Entry& entry : self.as_dict()->entries()) {
    Value order = KeyOf{nullptr, bound.truth(0, false)}(budget, by == "key" ? entry.key : entry.value);
    entries.push_back({std::move(order), Value::list({entry.key, entry.value}, ListForm::kTuple)});
  }
  return sorted(budget, std::move(entries), bound.truth(2, false));
}

template <bool kMax>
Value extreme_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"case_sensitive", "attribute"}};
  const std::vector<Keyed> entries = keyed(budget, self, {bound[1], bound.truth(0, false)});
  const Keyed* best = nullptr;
  for (const Keyed& entry : entries) {
    if (best == nullptr || (kMax ? less(budget, best->key, entry.key) : less(budget, entry.key, best->key))) best = &entry;
  }
  return best != nullptr ? best->item : Value::undefined();
}

Value unique_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"case_sensitive", "attribute"}};
  std::vector<Keyed> kept;
  for (Keyed& entry : keyed(budget, self, {bound[1], bound.truth(0, false)})) {
    charge_key(budget, entry.key, 1);
    if (!is_key(entry.key)) fail_runtime("unique cannot tell values of this kind apart: " + std::string{entry.key.type_name()});
    const bool seen = std::any_of(kept.begin(), kept.end(), [&](const Keyed& earlier) { return equal(budget, earlier.key, entry.key); });
    if (!seen) kept.push_back(std::move(entry));
  }
  std::vector<Value> items;
  for (Keyed& entry : kept) items.push_back(std::move(entry.item));
  return Value::list(std::move(items), ListForm::kIterator);
}

Value join_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"d", "attribute"}};
  const TrustedText separator = bound[0] != nullptr ? to_text(budget, *bound[0]) : TrustedText{};
  const bool by_attribute = bound[1] != nullptr && !bound[1]->is_none();
  TrustedText out;
  bool first = true;
  for (const Value& item : elements(budget, self)) {
    budget.charge_bytes(separator.size());
    if (!std::exchange(first, false)) out.append(separator);
    out.append(to_text(budget, by_attribute ? at_path(budget, item, *bound[1]) : item));
  }
  return Value::text(std::move(out));
}

Value sum_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"attribute", "start"}};
  const bool by_attribute = bound[0] != nullptr && !bound[0]->is_none();
  Value total = bound[1] != nullptr ? *bound[1] : Value::integer(0);
  if (total.as_text() != nullptr) fail_runtime("sum of strings; use join");
  for (const Value& item : elements(budget, self)) {
    total = arithmetic(budget, ArithmeticOp::kAdd, total, by_attribute ? at_path(budget, item, *bound[0]) : item);
  }
  return total;
}

/// The arguments behind the first `count`.
Arguments without_first(const Arguments& arguments, std::size_t count) {
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin(), rest.positional.begin() + static_cast<std::ptrdiff_t>(count));
  return rest;
}

const std::string& function_name(const Value& value) {
  if (value.as_text() == nullptr) fail_runtime("the name of a filter or test must be a string, not " + std::string{value.type_name()});
  return value.as_text()->bytes();
}

Value map_by_attribute(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"attribute", "default"}, 1};
  const KeyOf key_of{bound[0], true, bound[1]};
  std::vector<Value> items;
  for (const Value& item : elements(budget, self)) items.push_back(key_of.attribute(budget, item));
  return Value::list(std::move(items), ListForm::kIterator);
}

Value map_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  if (!self.truthy()) return Value::list({}, ListForm::kIterator);  // none, 0: not even asked for elements
  std::vector<Value> items = elements(budget, self);
  if (items.empty()) return Value::list({}, ListForm::kIterator);  // nothing asks for the function
  if (arguments.positional.empty()) return map_by_attribute(budget, Value::list(std::move(items)), arguments);
  const NamedFunction& filter = require_filter(function_name(arguments.positional[0]));
  const Arguments rest = without_first(arguments, 1);
  for (Value& item : items) item = filter.function(budget, item, rest);
  return Value::list(std::move(items), ListForm::kIterator);
}

/// select, reject, selectattr, rejectattr: keeps the elements (or those whose attribute) that pass, or fail, a test.
template <bool kKeep, bool kByAttribute>
Value select_filter(Budget& budget, const Value& self, const Arguments& arguments) {
  constexpr std::size_t kBefore = kByAttribute ? 1 : 0;
  if (!self.truthy()) return Value::list({}, ListForm::kIterator);
  std::vector<Value> items = elements(budget, self), kept;
  if (items.empty()) return Value::list({}, ListForm::kIterator);
  if (arguments.positional.size() < kBefore) fail_runtime("a call lacks its argument 'attribute'");
  const NamedTest* test = nullptr;
  Arguments rest;
  if (arguments.positional.size() > kBefore) {
    test = &require_test(function_name(arguments.positional[kBefore]));
    rest = without_first(arguments, kBefore + 1);
  }
  for (Value& item : items) {
    const Value subject = kByAttribute ? at_path(budget, item, arguments.positional[0]) : item;
    const bool passes = test != nullptr ? test->function(budget, subject, rest) : subject.truthy();
    if (passes == kKeep) kept.push_back(std::move(item));
  }
  return Value::list(std::move(kept), ListForm::kIterator);
}

constexpr NamedFunction kFilters[] = {
    {"dictsort", dictsort_filter},
    {"groupby", groupby_filter},
    {"join", join_filter},
    {"map", map_filter},
    {"max", extreme_filter<true>},
    {"min", extreme_filter<false>},
    {"reject", select_filter<false, false>},
    {"rejectattr", select_filter<false, true>},
    {"select", select_filter<true, false>},
    {"selectattr", select_filter<true, true>},
    {"sort", sort_filter},
    {"sum", sum_filter},
    {"unique", unique_filter},
};

}  // namespace

std::span<const NamedFunction> selection_filters() { return kFilters; }

}  // namespace kvpage::engine::chat
