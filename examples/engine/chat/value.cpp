/// \file Template values: construction, equality, order and membership.
#include "engine/chat/value.hpp"

#include "engine/chat/functions.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

namespace kvpage::engine::chat {
namespace {

int container_depth(int deepest_element) {
  if (deepest_element >= kMaxDepth) {
    fail(TemplateErrorKind::kLimit, "a value nests lists and maps more than " + std::to_string(kMaxDepth) + " deep");
  }
  return deepest_element + 1;
}

enum class KeyRank : std::uint8_t { kNone, kUndefined, kNumber, kText, kTuple, kNoKey };

KeyRank key_rank(const Value& key) {
  if (key.as_text() != nullptr) return KeyRank::kText;
  if (key.is_none()) return KeyRank::kNone;
  if (key.is_undefined()) return KeyRank::kUndefined;
  if (const double* number = key.as_number()) return std::isnan(*number) ? KeyRank::kNoKey : KeyRank::kNumber;
  if (key.as_bool() != nullptr || key.as_integer() != nullptr || key.as_big() != nullptr) return KeyRank::kNumber;
  return key.as_list() != nullptr && key.as_list()->form == ListForm::kTuple ? KeyRank::kTuple : KeyRank::kNoKey;
}

void require_key(const Value& key) {
  if (!is_key(key)) fail_runtime("a " + std::string{key.type_name()} + " cannot be the key of a map");
}

}  // namespace

Dict::Dict(std::vector<Entry> entries) : by_key_(entries.size()) {
  for (const Entry& entry : entries) require_key(entry.key);
  const auto before = [](const std::vector<Entry>& all) {
    return [&](std::uint32_t a, std::uint32_t b) { return compare_keys(all[a].key, all[b].key) < 0; };
  };
  std::iota(by_key_.begin(), by_key_.end(), 0u);
  std::stable_sort(by_key_.begin(), by_key_.end(), before(entries));

  std::vector<bool> keep(entries.size(), true);
  for (std::size_t i = 1; i < by_key_.size(); ++i) {
    if (compare_keys(entries[by_key_[i - 1]].key, entries[by_key_[i]].key) != 0) continue;
    entries[by_key_[i - 1]].value = std::move(entries[by_key_[i]].value);
    keep[by_key_[i]] = false;
    by_key_[i] = by_key_[i - 1];  // a third one lands at the first, too
  }
  int deepest = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!keep[i]) continue;
    deepest = std::max({deepest, entries[i].key.depth(), entries[i].value.depth()});
    entries_.push_back(std::move(entries[i]));
  }
  depth_ = container_depth(deepest);
  by_key_.resize(entries_.size());
  std::iota(by_key_.begin(), by_key_.end(), 0u);
  std::sort(by_key_.begin(), by_key_.end(), before(entries_));
}

const Value* Dict::find(std::string_view key) const {
  const auto before = [&](std::uint32_t i, std::string_view wanted) {
    const TrustedText* text = entries_[i].key.as_text();
    return text != nullptr ? text->bytes() < wanted : key_rank(entries_[i].key) < KeyRank::kText;
  };
  const auto at = std::lower_bound(by_key_.begin(), by_key_.end(), key, before);
  if (at == by_key_.end()) return nullptr;
  const TrustedText* text = entries_[*at].key.as_text();
  return text != nullptr && text->bytes() == key ? &entries_[*at].value : nullptr;
}

const Value* Dict::find(const Value& key) const {
  if (const TrustedText* text = key.as_text()) return find(text->bytes());
  require_key(key);
  const auto at = std::lower_bound(by_key_.begin(), by_key_.end(), key,
                                   [&](std::uint32_t i, const Value& wanted) { return compare_keys(entries_[i].key, wanted) < 0; });
  return at != by_key_.end() && compare_keys(entries_[*at].key, key) == 0 ? &entries_[*at].value : nullptr;
}

bool is_key(const Value& value) {
  if (key_rank(value) != KeyRank::kTuple) return key_rank(value) != KeyRank::kNoKey;
  return std::all_of(value.as_list()->items.begin(), value.as_list()->items.end(), is_key);
}

int compare_keys(const Value& a, const Value& b) {
  const KeyRank rank = key_rank(a), other = key_rank(b);
  if (rank != other) return rank < other ? -1 : 1;
  if (rank == KeyRank::kNumber) return *compare_numbers(a, b);
  if (rank == KeyRank::kText) return a.as_text()->bytes().compare(b.as_text()->bytes());
  if (rank != KeyRank::kTuple) return 0;
  const auto &x = a.as_list()->items, &y = b.as_list()->items;
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    if (const int order = compare_keys(x[i], y[i]); order != 0) return order;
  }
  return x.size() == y.size() ? 0 : x.size() < y.size() ? -1 : 1;
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

Value Value::integer(const BigInteger& value) {
  if (const auto narrow = value.narrow()) return integer(*narrow);
  if (value.limbs() > kMaxIntegerLimbs) {
    fail(TemplateErrorKind::kLimit, "makes an integer of more than " + std::to_string(kMaxIntegerLimbs * 32) + " bits");
  }
  return Value{std::make_shared<const BigInteger>(value)};
}

Value Value::list(std::vector<Value> items, ListForm form, bool is_group) {
  int deepest = 0;
  for (const Value& item : items) deepest = std::max(deepest, item.depth());
  const int depth = container_depth(deepest);
  return Value{std::make_shared<const List>(List{form, std::move(items), depth, is_group})};
}

Value Value::dict(std::vector<Dict::Entry> entries) { return Value{std::make_shared<const Dict>(std::move(entries))}; }

Value Value::function(std::string_view name) { return Value{std::make_shared<const Function>(Function{name, false, {}})}; }

Value Value::method(Value receiver, std::string_view name) {
  return Value{std::make_shared<const Function>(Function{name, true, std::move(receiver)})};
}

std::optional<BigInteger> Value::whole() const {
  if (const bool* held = as_bool()) return BigInteger{*held ? 1 : 0};
  if (const std::int64_t* held = as_integer()) return BigInteger{*held};
  if (const BigInteger* held = as_big()) return *held;
  return std::nullopt;
}

bool Value::is_callable() const {
  const Cycler* cycler = as_cycler();
  return as_function() != nullptr || as_macro() != nullptr || as_loop() != nullptr || (cycler != nullptr && cycler->joins);
}

const void* Value::identity() const {
  if (as_namespace() != nullptr) return as_namespace();
  if (as_loop() != nullptr) return as_loop();
  if (as_macro() != nullptr) return as_macro();
  return as_cycler();
}

int Value::depth() const {
  if (const List* list = as_list()) return list->depth;
  if (const Dict* dict = as_dict()) return dict->depth();
  if (const Function* function = as_function()) return function->receiver.depth();
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
  if (as_integer() != nullptr || as_big() != nullptr) return "integer";
  if (as_number() != nullptr) return "float";
  if (as_text() != nullptr) return "string";
  if (as_dict() != nullptr) return "map";
  if (as_namespace() != nullptr) return "namespace";
  if (as_loop() != nullptr) return "loop";
  if (as_macro() != nullptr) return "macro";
  if (as_cycler() != nullptr) return as_cycler()->joins ? "joiner" : "cycler";
  if (as_function() != nullptr) return as_function()->is_method ? "method" : "function";
  switch (as_list()->form) {
    case ListForm::kList: return "list";
    case ListForm::kTuple: return "tuple";
    case ListForm::kRange: return "range";
    case ListForm::kView: return "view of a map";
    case ListForm::kIterator: return "iterator";
  }
  return "list";
}

namespace {

bool equal_dicts(Budget& budget, const Dict& a, const Dict& b) {
  if (a.entries().size() != b.entries().size()) return false;
  return std::all_of(a.entries().begin(), a.entries().end(), [&](const Dict::Entry& entry) {
    const Value* other = find_key(budget, b, entry.key);
    return other != nullptr && equal(budget, entry.value, *other);
  });
}

bool equal_lists(Budget& budget, const List& a, const List& b) {
  const bool comparable = a.form == b.form && a.form != ListForm::kIterator && a.form != ListForm::kView;
  if (!comparable || a.items.size() != b.items.size()) return &a == &b;
  return std::equal(a.items.begin(), a.items.end(), b.items.begin(), [&](const Value& x, const Value& y) { return equal(budget, x, y); });
}

bool less_lists(Budget& budget, const List& a, const List& b) {
  const std::size_t shared = std::min(a.items.size(), b.items.size());
  for (std::size_t i = 0; i < shared; ++i) {
    if (!equal(budget, a.items[i], b.items[i])) return less(budget, a.items[i], b.items[i]);
  }
  return a.items.size() < b.items.size();
}

}  // namespace

bool is_number(const Value& value) {
  return value.as_integer() != nullptr || value.as_number() != nullptr || value.as_bool() != nullptr || value.as_big() != nullptr;
}

/// Exact, whatever the mixture of integers and floats.
std::optional<int> compare_numbers(const Value& a, const Value& b) {
  const auto sign = [](auto order) { return order < 0 ? -1 : order > 0 ? 1 : 0; };
  if (a.as_integer() != nullptr && b.as_integer() != nullptr) return sign(*a.as_integer() <=> *b.as_integer());
  const double *x = a.as_number(), *y = b.as_number();
  if ((x != nullptr && std::isnan(*x)) || (y != nullptr && std::isnan(*y))) return std::nullopt;
  if (x != nullptr && y != nullptr) return sign(*x <=> *y);
  if (x != nullptr && std::isinf(*x)) return *x < 0 ? -1 : 1;
  if (y != nullptr && std::isinf(*y)) return *y < 0 ? 1 : -1;
  const BigInteger whole_x = x != nullptr ? BigInteger::truncated(*x) : *a.whole();
  const BigInteger whole_y = y != nullptr ? BigInteger::truncated(*y) : *b.whole();
  if (const auto order = whole_x <=> whole_y; order != 0) return sign(order);
  if (x != nullptr) return sign(*x <=> std::trunc(*x));
  return y != nullptr ? sign(std::trunc(*y) <=> *y) : 0;
}

bool equal(Budget& budget, const Value& a, const Value& b) {
  budget.charge(1);
  if (is_number(a)) return is_number(b) && compare_numbers(a, b) == 0;
  if (const TrustedText* x = a.as_text()) {
    const TrustedText* y = b.as_text();
    if (y == nullptr || x->size() != y->size()) return false;
    budget.charge_bytes(x->size());
    return x->bytes() == y->bytes();
  }
  if (const Dict* x = a.as_dict()) return b.as_dict() != nullptr && equal_dicts(budget, *x, *b.as_dict());
  if (const List* x = a.as_list()) return b.as_list() != nullptr && equal_lists(budget, *x, *b.as_list());
  if (a.is_none()) return b.is_none();
  if (a.is_undefined()) return b.is_undefined();
  if (const Function* x = a.as_function()) {
    const Function* y = b.as_function();
    return y != nullptr && x->name == y->name && x->is_method == y->is_method && equal(budget, x->receiver, y->receiver);
  }
  return a.identity() == b.identity() && a.identity() != nullptr;
}

bool less(Budget& budget, const Value& a, const Value& b) {
  budget.charge(1);
  if (is_number(a) && is_number(b)) return compare_numbers(a, b) == -1;
  if (a.as_text() != nullptr && b.as_text() != nullptr) {  // the order of UTF-8 bytes is the order of code points
    budget.charge_bytes(std::min(a.as_text()->size(), b.as_text()->size()));
    return a.as_text()->bytes() < b.as_text()->bytes();
  }
  const List* list_a = a.as_list();
  const List* list_b = b.as_list();
  if (list_a != nullptr && list_b != nullptr && list_a->form == list_b->form && list_a->form <= ListForm::kTuple) {
    return less_lists(budget, *list_a, *list_b);
  }
  fail_runtime("no order between " + std::string{a.type_name()} + " and " + std::string{b.type_name()});
}

void charge_key(Budget& budget, const Value& key, std::size_t comparisons) {
  if (const TrustedText* text = key.as_text()) return budget.charge(text->size() * comparisons / kBytesPerStep);
  if (const BigInteger* big = key.as_big()) return budget.charge(big->limbs() * sizeof(std::uint32_t) * comparisons / kBytesPerStep);
  const List* list = key.as_list();
  if (list == nullptr || list->form != ListForm::kTuple) return;
  for (const Value& part : list->items) {
    budget.charge(1);  // tuples that share their parts are many more values than objects
    charge_key(budget, part, comparisons);
  }
}

std::size_t search_steps(std::size_t count, std::string_view name) {
  constexpr std::size_t kVisitBytes = 16;
  return count * (kVisitBytes + name.size()) / kBytesPerStep;
}

Value make_map(Budget& budget, std::vector<Dict::Entry> entries) {
  const auto comparisons = 2 * static_cast<std::size_t>(std::bit_width(entries.size()));  // the keys are sorted twice
  for (const Dict::Entry& entry : entries) charge_key(budget, entry.key, comparisons);
  return Value::dict(std::move(entries));
}

const Value* find_key(Budget& budget, const Dict& dict, std::string_view key) {
  budget.charge(key.size() * static_cast<std::size_t>(std::bit_width(dict.entries().size())) / kBytesPerStep);
  return dict.find(key);
}

const Value* find_key(Budget& budget, const Dict& dict, const Value& key) {
  charge_key(budget, key, static_cast<std::size_t>(std::bit_width(dict.entries().size())));
  return dict.find(key);
}

bool compare(Budget& budget, CompareOp op, const Value& a, const Value& b) {
  const auto at_most = [&](const Value& x, const Value& y) {
    if (!is_number(x) || !is_number(y)) return !less(budget, y, x);
    const auto order = compare_numbers(x, y);
    return order && *order <= 0;
  };
  switch (op) {
    case CompareOp::kEqual: return equal(budget, a, b);
    case CompareOp::kNotEqual: return !equal(budget, a, b);
    case CompareOp::kLess: return less(budget, a, b);
    case CompareOp::kGreater: return less(budget, b, a);
    case CompareOp::kLessEqual: return at_most(a, b);
    case CompareOp::kGreaterEqual: return at_most(b, a);
    case CompareOp::kIn: return contains(budget, b, a);
    case CompareOp::kNotIn: return !contains(budget, b, a);
  }
  return false;
}

std::size_t find_bytes(Budget& budget, std::string_view text, std::string_view needle, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  // memmem is linear in the worst case, std::string_view::find is not.
  const void* found = ::memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  const std::size_t at =
      found == nullptr ? std::string_view::npos : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
  budget.charge_bytes((found == nullptr ? text.size() : at) - from + needle.size());
  return at;
}

bool contains(Budget& budget, const Value& container, const Value& item) {
  if (const TrustedText* text = container.as_text()) {
    if (item.as_text() == nullptr) fail_runtime("'in <string>' needs a string on its left, not " + std::string{item.type_name()});
    return find_bytes(budget, text->bytes(), item.as_text()->bytes()) != std::string_view::npos;
  }
  if (const List* list = container.as_list()) {
    const std::size_t begin = list->form == ListForm::kIterator ? list->taken : 0;
    for (std::size_t i = begin; i < list->items.size(); ++i) {
      if (list->form == ListForm::kIterator) list->taken = i + 1;
      if (equal(budget, list->items[i], item)) return true;
    }
    return false;
  }
  if (const Dict* dict = container.as_dict()) return find_key(budget, *dict, item) != nullptr;
  if (container.is_undefined()) return false;
  fail_runtime("'in' needs a string, list or map on its right, not " + std::string{container.type_name()});
}

}  // namespace kvpage::engine::chat
