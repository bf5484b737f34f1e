/// \file The values of a template, the texts with trust and large integers in them, what they may cost, and how an operation on them fails.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace kvpage::engine::chat {

// What a template may cost at most, so that a hostile model file can neither hang nor exhaust the process.

inline constexpr std::size_t kMaxSourceBytes = 256 * 1024;
/// One step = one evaluated node, one visited element, or kBytesPerStep bytes of text made or scanned.
inline constexpr std::int64_t kMaxSteps = 1'000'000;
inline constexpr std::size_t kBytesPerStep = 256;
/// For the output and for every string on the way to it.
inline constexpr std::size_t kMaxOutputBytes = 1'000'000;
/// Nesting of statements and expressions, of values, and of macro calls.
inline constexpr int kMaxDepth = 64;
/// Nodes that are being evaluated at one time, over all macro calls: bounds the native stack.
inline constexpr int kMaxEvalDepth = 400;
/// map('map', 'map', ...) calls itself once per argument.
inline constexpr std::size_t kMaxArguments = 64;
inline constexpr std::int64_t kMaxRange = 10'000;
/// 32-bit limbs of an integer: 4,296 decimal digits; Python writes at most 4,300.
inline constexpr std::size_t kMaxIntegerLimbs = 446;

}  // namespace kvpage::engine::chat

namespace kvpage::engine {

enum class TemplateErrorKind : std::uint8_t {
  kSyntax,       ///< not a well-formed template
  kUnsupported,  ///< valid Jinja that lies outside of the subset
  kLimit,        ///< a cap below was reached
  kRuntime,      ///< an operation on values that it is not defined for
  kRaised,       ///< the template itself refused these messages (raise_exception)
};

struct TemplateError {
  TemplateErrorKind kind = TemplateErrorKind::kSyntax;
  int line = 0;         ///< 1-based line of the template; 0 = not about a place in it
  std::string message;  ///< one sentence, without the line

  /// "chat template, line N: message".
  std::string text() const {
    return line > 0 ? "chat template, line " + std::to_string(line) + ": " + message : "chat template: " + message;
  }
};

namespace chat {
/// How a TemplateError travels inside the engine; ChatTemplate turns it into a value at its boundary.
/// Line 0 is filled in by the innermost node that the failure passes.
struct TemplateFailure {
  TemplateError error;
};

[[noreturn]] inline void fail(TemplateErrorKind kind, std::string message, int line = 0) {
  throw TemplateFailure{TemplateError{kind, line, std::move(message)}};
}
[[noreturn]] inline void fail_runtime(std::string message) { fail(TemplateErrorKind::kRuntime, std::move(message)); }
}  // namespace chat

}  // namespace kvpage::engine

namespace kvpage::engine::chat {

class Budget {
 public:
  /// Errors: kLimit when the steps are used up.
  void charge(std::size_t steps) {
    if (steps > static_cast<std::size_t>(steps_left_)) {
      fail(TemplateErrorKind::kLimit, "needs more than " + std::to_string(kMaxSteps) + " steps; shorten the conversation or the template");
    }
    steps_left_ -= static_cast<std::int64_t>(steps);
  }

  /// For work that is linear in the length of a text.
  void charge_bytes(std::size_t bytes) { charge(1 + bytes / kBytesPerStep); }

 private:
  std::int64_t steps_left_ = kMaxSteps;
};

}  // namespace kvpage::engine::chat

namespace kvpage::engine {

/// Bytes [begin, end) of a text, written by the template (its literals, bos and eos, known roles): special tokens count
/// only here.
struct TrustedSpan {
  std::size_t begin = 0;
  std::size_t end = 0;
  friend bool operator==(const TrustedSpan&, const TrustedSpan&) = default;
};

namespace chat {

/// UTF-8 bytes plus their trusted spans (sorted, disjoint, never adjacent). Cutting and joining keep every byte's trust.
/// Errors: appending beyond kMaxOutputBytes fails with kLimit.
class TrustedText {
 public:
  TrustedText() = default;
  static TrustedText untrusted(std::string bytes);
  static TrustedText trusted(std::string bytes);

  const std::string& bytes() const noexcept { return bytes_; }
  const std::vector<TrustedSpan>& spans() const noexcept { return spans_; }
  std::size_t size() const noexcept { return bytes_.size(); }
  bool empty() const noexcept { return bytes_.empty(); }
  /// True when every byte is trusted: then a text computed from it alone is trusted too.
  bool all_trusted() const noexcept { return !empty() && spans_.size() == 1 && spans_[0] == TrustedSpan{0, size()}; }

  void append(const TrustedText& other) { append_slice(other, 0, other.size()); }
  /// Requires: begin <= end <= other.size(), &other != this.
  void append_slice(const TrustedText& other, std::size_t begin, std::size_t end);
  void append_untrusted(std::string_view bytes);
  /// `bytes` in the place of the byte of `other` at `at`, with its trust.
  void append_instead(const TrustedText& other, std::size_t at, std::string_view bytes);

  /// Jinja's Markup, the result of `safe`: what it is joined with is escaped. Cutting and joining forget it.
  bool is_markup() const noexcept { return markup_; }
  TrustedText& set_markup(bool markup) { return markup_ = markup, *this; }

  /// Bytes [begin, end). Requires: begin <= end <= size(). Cost: linear in the slice, logarithmic in the spans.
  TrustedText slice(std::size_t begin, std::size_t end) const;

 private:
  void require_room(std::size_t extra) const;

  std::string bytes_;
  std::vector<TrustedSpan> spans_;
  bool markup_ = false;
};

}  // namespace chat

}  // namespace kvpage::engine

namespace kvpage::engine::chat {

/// Values hold at most kMaxIntegerLimbs of it, which bounds what any operation here costs.
class BigInteger {
 public:
  BigInteger() = default;  // 0
  BigInteger(std::int64_t value);  // NOLINT: every 64-bit integer is one
  /// The integer part. Requires: finite.
  static BigInteger truncated(double value);
  /// Digits of `base` alone, no sign; nullopt when another character occurs or there is none.
  static std::optional<BigInteger> parse(std::string_view digits, unsigned base);

  bool is_zero() const noexcept { return limbs_.empty(); }
  bool is_negative() const noexcept { return negative_; }
  std::size_t limbs() const noexcept { return limbs_.size(); }
  std::size_t bits() const noexcept;
  std::optional<std::int64_t> narrow() const noexcept;
  /// The nearest double, ties to even; infinite when it is too large.
  double nearest() const;
  /// Digits with a `-` in front of negative ones. Requires: 2 <= base <= 36.
  std::string text(unsigned base = 10) const;

  BigInteger operator-() const;
  friend BigInteger operator+(const BigInteger& a, const BigInteger& b);
  friend BigInteger operator-(const BigInteger& a, const BigInteger& b) { return a + -b; }
  friend BigInteger operator*(const BigInteger& a, const BigInteger& b);
  BigInteger shifted_left(std::size_t bits) const;
  /// Quotient rounded down and the rest, which has the sign of the divisor. Requires: b is not zero.
  static std::pair<BigInteger, BigInteger> divided(const BigInteger& a, const BigInteger& b);
  friend bool operator==(const BigInteger&, const BigInteger&) = default;
  friend std::strong_ordering operator<=>(const BigInteger& a, const BigInteger& b);

 private:
  using Limbs = std::vector<std::uint32_t>;  // lowest first, no zero on top
  BigInteger(Limbs limbs, bool negative);
  static std::strong_ordering compare_size(const Limbs& a, const Limbs& b);
  static Limbs sum(const Limbs& a, const Limbs& b);
  static Limbs difference(const Limbs& a, const Limbs& b);
  static std::uint32_t divide_small(Limbs& limbs, std::uint32_t divisor);

  Limbs limbs_;
  bool negative_ = false;
};

/// a / b as Python computes it: the exact quotient, rounded once. Requires: b is not zero. Infinite when it is too large.
double true_quotient(const BigInteger& a, const BigInteger& b);

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
