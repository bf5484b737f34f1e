/// \file The lists of functions, how they read their arguments, the tests, and the filters that call both by name.
#include "engine/chat/functions.hpp"

#include "engine/chat/text.hpp"
#include "engine/chat/value.hpp"

#include <algorithm>
#include <charconv>
#include <string>

namespace kvpage::engine::chat {

BoundArguments::BoundArguments(const Arguments& arguments, std::initializer_list<std::string_view> names, std::size_t required)
    : names_(names), values_(names.size(), nullptr) {
  if (arguments.positional.size() > names_.size()) {
    fail_runtime("a call takes at most " + std::to_string(names_.size()) + " arguments, not " +
                 std::to_string(arguments.positional.size()));
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto at = std::find(names_.begin(), names_.end(), name);
    if (at == names_.end()) fail_runtime("a call has no parameter '" + std::string{name} + "'");
    const Value*& slot = values_[static_cast<std::size_t>(at - names_.begin())];
    if (slot != nullptr) fail_runtime("a call gives '" + std::string{name} + "' twice");
    slot = &value;
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (values_[i] == nullptr) fail_runtime("a call lacks its argument '" + std::string{names_[i]} + "'");
  }
}

std::int64_t BoundArguments::integer(std::size_t index, std::int64_t fallback) const {
  const Value* value = values_[index];
  if (value == nullptr || value->is_none()) return fallback;
  if (const std::int64_t* number = value->as_integer()) return *number;
  if (const bool* flag = value->as_bool()) return *flag ? 1 : 0;
  fail_runtime("the argument '" + std::string{names_[index]} + "' must be an integer, not " + std::string{value->type_name()});
}

bool BoundArguments::truth(std::size_t index, bool fallback) const {
  return values_[index] == nullptr ? fallback : values_[index]->truthy();
}

const TrustedText* BoundArguments::text(std::size_t index) const {
  const Value* value = values_[index];
  if (value == nullptr || value->is_none()) return nullptr;
  if (const TrustedText* held = value->as_text()) return held;
  fail_runtime("the argument '" + std::string{names_[index]} + "' must be a string, not " + std::string{value->type_name()});
}

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

namespace {

/// A test without arguments, from a predicate on the value.
template <auto kPredicate>
bool plain(Budget&, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  return kPredicate(self);
}

template <CompareOp kOp>
bool comparison(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"other"}, 1};
  return compare(budget, kOp, self, *bound[0]);
}

bool divisible(Budget& budget, const Value& self, const Value& divisor, std::int64_t rest) {
  return equal(budget, arithmetic(budget, ArithmeticOp::kModulo, self, divisor), Value::integer(rest));
}

template <std::int64_t kRest>
bool parity(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  return divisible(budget, self, Value::integer(2), kRest);
}

bool divisibleby_test(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"num"}, 1};
  return divisible(budget, self, *bound[0], 0);
}

template <bool (*kPredicate)(std::string_view)>
bool cased(Budget& budget, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  const TrustedText text = to_text(budget, self);
  budget.charge_bytes(4 * text.size());
  return kPredicate(text.bytes());
}

/// Python's `is` for values that exist once or that are of different types. Others have no identity here.
bool sameas_test(Budget&, const Value& self, const Arguments& arguments) {
  const BoundArguments bound{arguments, {"other"}, 1};
  const Value& other = *bound[0];
  if (other.as_bool() != nullptr) return self.as_bool() != nullptr && *self.as_bool() == *other.as_bool();
  if (other.is_none()) return self.is_none();
  if (other.identity() != nullptr || self.identity() != nullptr) return other.identity() == self.identity();
  if (self.type_name() != other.type_name()) return false;
  fail(TemplateErrorKind::kUnsupported, "'sameas' is supported for true, false, none and objects; use == for others");
}

template <auto kFind>
bool known_name(Budget&, const Value& self, const Arguments& arguments) {
  const BoundArguments none{arguments, {}};
  if (self.as_list() != nullptr || self.as_dict() != nullptr) fail_runtime("'filter' and 'test' need a name");
  return self.as_text() != nullptr && kFind(self.as_text()->bytes()) != nullptr;
}

constexpr auto kIterable = [](const Value& v) {
  return v.as_text() != nullptr || v.as_list() != nullptr || v.as_dict() != nullptr || v.is_undefined() || v.as_loop() != nullptr;
};
constexpr auto kSequence = [](const Value& v) { return kIterable(v) && (v.as_list() == nullptr || v.as_list()->form <= ListForm::kRange); };
constexpr auto kIsBool = [](const Value& v) { return v.as_bool() != nullptr; };
constexpr auto kIsTrue = [](const Value& v) { return v.as_bool() != nullptr && *v.as_bool(); };
constexpr auto kIsFalse = [](const Value& v) { return v.as_bool() != nullptr && !*v.as_bool(); };

constexpr NamedTest kTests[] = {
    {"boolean", plain<kIsBool>},
    {"callable", plain<[](const Value& v) { return v.is_callable() || v.is_undefined(); }>},
    {"defined", plain<[](const Value& v) { return !v.is_undefined(); }>},
    {"divisibleby", divisibleby_test},
    {"eq", comparison<CompareOp::kEqual>},
    {"equalto", comparison<CompareOp::kEqual>},
    {"==", comparison<CompareOp::kEqual>},
    {"escaped", plain<[](const Value& v) { return v.as_text() != nullptr && v.as_text()->is_markup(); }>},
    {"even", parity<0>},
    {"false", plain<kIsFalse>},
    {"filter", known_name<find_filter>},
    {"float", plain<[](const Value& v) { return v.as_number() != nullptr; }>},
    {"ge", comparison<CompareOp::kGreaterEqual>},
    {">=", comparison<CompareOp::kGreaterEqual>},
    {"greaterthan", comparison<CompareOp::kGreater>},
    {"gt", comparison<CompareOp::kGreater>},
    {">", comparison<CompareOp::kGreater>},
    {"in", comparison<CompareOp::kIn>},
    {"integer", plain<[](const Value& v) { return v.as_integer() != nullptr || v.as_big() != nullptr; }>},
    {"iterable", plain<kIterable>},
    {"le", comparison<CompareOp::kLessEqual>},
    {"<=", comparison<CompareOp::kLessEqual>},
    {"lessthan", comparison<CompareOp::kLess>},
    {"lower", cased<is_lower_text>},
    {"lt", comparison<CompareOp::kLess>},
    {"<", comparison<CompareOp::kLess>},
    {"mapping", plain<[](const Value& v) { return v.as_dict() != nullptr; }>},
    {"ne", comparison<CompareOp::kNotEqual>},
    {"!=", comparison<CompareOp::kNotEqual>},
    {"none", plain<[](const Value& v) { return v.is_none(); }>},
    {"number", plain<is_number>},
    {"odd", parity<1>},
    {"sameas", sameas_test},
    {"sequence", plain<kSequence>},
    {"string", plain<[](const Value& v) { return v.as_text() != nullptr; }>},
    {"test", known_name<find_test>},
    {"true", plain<kIsTrue>},
    {"undefined", plain<[](const Value& v) { return v.is_undefined(); }>},
    {"upper", cased<is_upper_text>},
};

}  // namespace

std::span<const NamedTest> value_tests() { return kTests; }

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
