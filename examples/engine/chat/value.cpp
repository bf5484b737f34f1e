/// \file Construction, truth and look-up of template values.
#include "engine/chat/value.hpp"

#include "engine/chat/limits.hpp"
#include "engine/chat/operators.hpp"
#include "engine/chat/template_error.hpp"

#include <algorithm>
#include <cmath>
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

}  // namespace kvpage::engine::chat
