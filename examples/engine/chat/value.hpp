/// \file Value: what a chat template computes with: JSON values, plus "undefined" and the two mutable objects of Jinja.
#pragma once

#include "engine/chat/trusted_text.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace kvpage::engine::chat {

class Value;
struct LoopState;

/// How a list came to be; Jinja treats the forms differently (only lists and tuples print, only tuples print with `()`).
enum class ListForm : std::uint8_t {
  kList,
  kTuple,
  kRange,     ///< range(): has a length and elements, does not print
  kView,      ///< dict.items(): has a length, no elements by number
  kIterator,  ///< result of map, select ...: always true, no length; `|list` makes a list of it
};

/// Immutable. `depth` = 1 + the deepest element, at most kMaxDepth.
struct List {
  ListForm form = ListForm::kList;
  std::vector<Value> items;
  int depth = 1;
};

/// Immutable map with string keys in insertion order.
class Dict {
 public:
  struct Entry;
  /// Requires: a repeated key replaces the earlier value and keeps its place.
  explicit Dict(std::vector<Entry> entries);
  const std::vector<Entry>& entries() const noexcept { return entries_; }
  int depth() const noexcept { return depth_; }
  /// The value of `key`, or nullptr. Cost: logarithmic.
  const Value* find(std::string_view key) const;

 private:
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> by_key_;  // [entries] positions, sorted by key
  int depth_ = 1;
};

/// The result of `namespace(...)`: the one object that a template may change. Owned by the rendering.
struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
  Value* find(std::string_view name);
  void set(std::string_view name, Value value);
};

struct Undefined {
  std::string_view name;  ///< what was missing, for messages; points into the template
};
struct None {};

/// One value. Copies share text, lists and dicts, which never change. Threads: reading is safe from any.
class Value {
 public:
  using TextPtr = std::shared_ptr<const TrustedText>;
  using ListPtr = std::shared_ptr<const List>;
  using DictPtr = std::shared_ptr<const Dict>;

  Value() = default;  // undefined
  static Value undefined(std::string_view name = {}) { return Value{Undefined{name}}; }
  static Value none() { return Value{None{}}; }
  static Value boolean(bool value) { return Value{value}; }
  static Value integer(std::int64_t value) { return Value{value}; }
  static Value number(double value) { return Value{value}; }
  static Value text(TrustedText value) { return Value{std::make_shared<const TrustedText>(std::move(value))}; }
  /// Text from outside of the template.
  static Value text(std::string value) { return text(TrustedText::untrusted(std::move(value))); }
  /// Errors: kLimit beyond kMaxDepth levels of lists and dicts.
  static Value list(std::vector<Value> items, ListForm form = ListForm::kList);
  static Value dict(std::vector<Dict::Entry> entries);
  static Value of(Namespace& space) { return Value{&space}; }
  static Value of(LoopState& loop) { return Value{&loop}; }

  bool is_undefined() const { return std::holds_alternative<Undefined>(state_); }
  bool is_none() const { return std::holds_alternative<None>(state_); }
  const Undefined* as_undefined() const { return std::get_if<Undefined>(&state_); }
  const bool* as_bool() const { return std::get_if<bool>(&state_); }
  const std::int64_t* as_integer() const { return std::get_if<std::int64_t>(&state_); }
  const double* as_number() const { return std::get_if<double>(&state_); }
  const TrustedText* as_text() const { return pointee<TextPtr>(); }
  const List* as_list() const { return pointee<ListPtr>(); }
  const Dict* as_dict() const { return pointee<DictPtr>(); }
  Namespace* as_namespace() const { return object<Namespace>(); }
  LoopState* as_loop() const { return object<LoopState>(); }

  /// Levels of lists and dicts in this value; 0 for everything else.
  int depth() const;
  /// Python's idea of truth: not undefined, none, false, zero or empty.
  bool truthy() const;
  /// "string", "list" ... for messages.
  std::string_view type_name() const;

 private:
  using State = std::variant<Undefined, None, bool, std::int64_t, double, TextPtr, ListPtr, DictPtr, Namespace*, LoopState*>;
  explicit Value(State state) : state_(std::move(state)) {}
  template <class Ptr>
  auto pointee() const -> decltype(std::declval<Ptr>().get()) {
    const Ptr* held = std::get_if<Ptr>(&state_);
    return held != nullptr ? held->get() : nullptr;
  }
  template <class Object>
  Object* object() const {
    Object* const* held = std::get_if<Object*>(&state_);
    return held != nullptr ? *held : nullptr;
  }

  State state_;
};

struct Dict::Entry {
  TrustedText key;
  Value value;
};

}  // namespace kvpage::engine::chat
