/// \file Value: what a chat template computes with: JSON values, "undefined", functions, and the mutable objects of Jinja.
#pragma once

#include "engine/chat/big_integer.hpp"
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
struct MacroObject;

/// How a list came to be; Jinja treats the forms differently (only lists and tuples print, only tuples print with `()`).
enum class ListForm : std::uint8_t {
  kList,
  kTuple,
  kRange,     ///< range(): has a length and elements, does not print
  kView,      ///< dict.items(): has a length, no elements by number
  kIterator,  ///< result of map, select ...: always true, no length, gives each element once; `|list` makes a list of it
};

/// Immutable, except that an iterator moves on. `depth` = 1 + the deepest element, at most kMaxDepth.
struct List {
  ListForm form = ListForm::kList;
  std::vector<Value> items;
  int depth = 1;
  bool is_group = false;          ///< (grouper, list) of groupby: a tuple whose parts have names
  mutable std::size_t taken = 0;  ///< elements of an iterator that were given out
};

/// Immutable map in insertion order. Keys are what Python can hash: strings, numbers, none and tuples of them; 1, 1.0 and true are one key.
class Dict {
 public:
  struct Entry;
  /// Requires: a repeated key replaces the earlier value and keeps its place. Errors: kRuntime for a key that cannot be one.
  explicit Dict(std::vector<Entry> entries);
  const std::vector<Entry>& entries() const noexcept { return entries_; }
  int depth() const noexcept { return depth_; }
  /// The value of `key`, or nullptr. Cost: logarithmic.
  const Value* find(std::string_view key) const;
  const Value* find(const Value& key) const;

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

/// The result of `cycler(...)` or `joiner(...)`. Owned by the rendering.
struct Cycler {
  std::vector<Value> items;  ///< of a joiner: its separator
  bool joins = false;
  std::size_t at = 0;
};

struct Undefined {
  std::string_view name;  ///< what was missing, for messages; points into the template
};
struct None {};
struct Function;

/// One value. Copies share text, lists and dicts, which never change. Threads: reading is safe from any.
class Value {
 public:
  using TextPtr = std::shared_ptr<const TrustedText>;
  using ListPtr = std::shared_ptr<const List>;
  using DictPtr = std::shared_ptr<const Dict>;
  using BigPtr = std::shared_ptr<const BigInteger>;
  using FunctionPtr = std::shared_ptr<const Function>;

  Value() = default;  // undefined
  static Value undefined(std::string_view name = {}) { return Value{Undefined{name}}; }
  static Value none() { return Value{None{}}; }
  static Value boolean(bool value) { return Value{value}; }
  static Value integer(std::int64_t value) { return Value{value}; }
  /// Errors: kLimit beyond kMaxIntegerLimbs.
  static Value integer(const BigInteger& value);
  static Value number(double value) { return Value{value}; }
  static Value text(TrustedText value) { return Value{std::make_shared<const TrustedText>(std::move(value))}; }
  /// Text from outside of the template.
  static Value text(std::string value) { return text(TrustedText::untrusted(std::move(value))); }
  /// Errors: kLimit beyond kMaxDepth levels of lists and dicts.
  static Value list(std::vector<Value> items, ListForm form = ListForm::kList, bool is_group = false);
  static Value dict(std::vector<Dict::Entry> entries);
  /// The global function of that name, or the method of `receiver`. `name` must outlive the value.
  static Value function(std::string_view name);
  static Value method(Value receiver, std::string_view name);
  static Value of(Namespace& object) { return Value{&object}; }
  static Value of(LoopState& object) { return Value{&object}; }
  static Value of(MacroObject& object) { return Value{&object}; }
  static Value of(Cycler& object) { return Value{&object}; }

  bool is_undefined() const { return std::holds_alternative<Undefined>(state_); }
  bool is_none() const { return std::holds_alternative<None>(state_); }
  const Undefined* as_undefined() const { return std::get_if<Undefined>(&state_); }
  const bool* as_bool() const { return std::get_if<bool>(&state_); }
  const std::int64_t* as_integer() const { return std::get_if<std::int64_t>(&state_); }
  const BigInteger* as_big() const { return pointee<BigPtr>(); }  ///< only beyond 64 bits
  const double* as_number() const { return std::get_if<double>(&state_); }
  const TrustedText* as_text() const { return pointee<TextPtr>(); }
  const List* as_list() const { return pointee<ListPtr>(); }
  const Dict* as_dict() const { return pointee<DictPtr>(); }
  const Function* as_function() const { return pointee<FunctionPtr>(); }
  Namespace* as_namespace() const { return object<Namespace>(); }
  LoopState* as_loop() const { return object<LoopState>(); }
  MacroObject* as_macro() const { return object<MacroObject>(); }
  Cycler* as_cycler() const { return object<Cycler>(); }

  /// An integer of any size, or a boolean as Python counts it.
  std::optional<BigInteger> whole() const;
  bool is_callable() const;
  /// The object behind a value that exists once; nullptr for data.
  const void* identity() const;
  /// Levels of lists and dicts in this value; 0 for everything else.
  int depth() const;
  /// Python's idea of truth: not undefined, none, false, zero or empty.
  bool truthy() const;
  /// "string", "list" ... for messages.
  std::string_view type_name() const;

 private:
  using State = std::variant<Undefined, None, bool, std::int64_t, double, BigPtr, TextPtr, ListPtr, DictPtr, FunctionPtr, Namespace*,
                             LoopState*, MacroObject*, Cycler*>;
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
  Value key;
  Value value;
};

/// A built-in function as a value.
struct Function {
  std::string_view name;
  bool is_method = false;
  Value receiver;  ///< of a method
};

/// An order of all values that can be keys, the same for equal ones. Errors: kRuntime for others.
int compare_keys(const Value& a, const Value& b);
bool is_key(const Value& value);

}  // namespace kvpage::engine::chat
