/// \file Equality, order and membership of template values.
#include "engine/chat/operators.hpp"
#include "engine/chat/template_error.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace kvpage::engine::chat {
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
