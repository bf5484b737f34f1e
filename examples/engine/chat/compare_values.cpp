/// \file Equality, order and membership of template values.
#include "engine/chat/operators.hpp"
#include "engine/chat/template_error.hpp"

#include <algorithm>
#include <cstring>

namespace kvpage::engine::chat {
namespace {

/// Booleans are the integers 0 and 1, as in Python; the extended type holds every 64-bit integer exactly.
std::optional<long double> numeric(const Value& value) {
  if (const bool* held = value.as_bool()) return *held ? 1.0L : 0.0L;
  if (const std::int64_t* held = value.as_integer()) return static_cast<long double>(*held);
  if (const double* held = value.as_number()) return static_cast<long double>(*held);
  return std::nullopt;
}

bool equal_dicts(Budget& budget, const Dict& a, const Dict& b) {
  if (a.entries().size() != b.entries().size()) return false;
  return std::all_of(a.entries().begin(), a.entries().end(), [&](const Dict::Entry& entry) {
    const Value* other = b.find(entry.key.bytes());
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

bool equal(Budget& budget, const Value& a, const Value& b) {
  budget.charge(1);
  if (const auto x = numeric(a)) {
    const auto y = numeric(b);
    return y && *x == *y;
  }
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
  return a.as_namespace() == b.as_namespace() && a.as_loop() == b.as_loop();
}

bool less(Budget& budget, const Value& a, const Value& b) {
  budget.charge(1);
  const auto x = numeric(a), y = numeric(b);
  if (x && y) return *x < *y;
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

bool compare(Budget& budget, CompareOp op, const Value& a, const Value& b) {
  const auto both_numbers = [&] { return numeric(a) && numeric(b); };
  switch (op) {
    case CompareOp::kEqual: return equal(budget, a, b);
    case CompareOp::kNotEqual: return !equal(budget, a, b);
    case CompareOp::kLess: return less(budget, a, b);
    case CompareOp::kGreater: return less(budget, b, a);
    case CompareOp::kLessEqual: return both_numbers() ? *numeric(a) <= *numeric(b) : !less(budget, b, a);
    case CompareOp::kGreaterEqual: return both_numbers() ? *numeric(a) >= *numeric(b) : !less(budget, a, b);
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
    return std::any_of(list->items.begin(), list->items.end(), [&](const Value& held) { return equal(budget, held, item); });
  }
  if (const Dict* dict = container.as_dict()) return item.as_text() != nullptr && dict->find(item.as_text()->bytes()) != nullptr;
  if (container.is_undefined()) return false;
  fail_runtime("'in' needs a string, list or map on its right, not " + std::string{container.type_name()});
}

}  // namespace kvpage::engine::chat
