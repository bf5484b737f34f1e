/// \file Expected<T, E>: a value or the reason why there is none (the subset of C++23 std::expected that we need).
#pragma once

#include <kvpage/base/assert.hpp>

#include <type_traits>
#include <utility>
#include <variant>

KVPAGE_BEGIN_NAMESPACE

/// Wraps an error so that it converts to any Expected with that error type.
template <class E>
struct Unexpected {
  E error;
};
template <class E>
Unexpected(E) -> Unexpected<E>;

/// Either a `T` or an `E`. Requires: T and E are object types. Reading the absent side is a broken invariant.
template <class T, class E>
class [[nodiscard]] Expected {
 public:
  using Value = T;
  using Error = E;

  constexpr Expected(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  template <class G>
    requires std::is_convertible_v<G, E>
  constexpr Expected(Unexpected<G> unexpected) : state_(std::in_place_index<1>, std::move(unexpected.error)) {}

  constexpr bool has_value() const noexcept { return state_.index() == 0; }
  constexpr explicit operator bool() const noexcept { return has_value(); }

  constexpr T& value() & { return require_value(), std::get<0>(state_); }
  constexpr const T& value() const& { return require_value(), std::get<0>(state_); }
  constexpr T&& value() && { return require_value(), std::get<0>(std::move(state_)); }
  constexpr T& operator*() & { return value(); }
  constexpr const T& operator*() const& { return value(); }
  constexpr T&& operator*() && { return std::move(*this).value(); }
  constexpr T* operator->() { return &value(); }
  constexpr const T* operator->() const { return &value(); }

  constexpr E& error() & { return require_error(), std::get<1>(state_); }
  constexpr const E& error() const& { return require_error(), std::get<1>(state_); }
  constexpr E&& error() && { return require_error(), std::get<1>(std::move(state_)); }

  template <class U>
  constexpr T value_or(U&& fallback) const& {
    return has_value() ? value() : static_cast<T>(std::forward<U>(fallback));
  }

 private:
  constexpr void require_value() const { KVPAGE_ASSERT(has_value(), "Expected holds a value"); }
  constexpr void require_error() const { KVPAGE_ASSERT(!has_value(), "Expected holds an error"); }

  std::variant<T, E> state_;
};

/// Success without a value, or an `E`.
template <class E>
class [[nodiscard]] Expected<void, E> {
 public:
  using Value = void;
  using Error = E;

  constexpr Expected() = default;
  template <class G>
    requires std::is_convertible_v<G, E>
  constexpr Expected(Unexpected<G> unexpected) : state_(std::in_place_index<1>, std::move(unexpected.error)) {}

  constexpr bool has_value() const noexcept { return state_.index() == 0; }
  constexpr explicit operator bool() const noexcept { return has_value(); }
  constexpr void value() const { KVPAGE_ASSERT(has_value(), "Expected holds a value"); }
  constexpr E& error() & { return require_error(), std::get<1>(state_); }
  constexpr const E& error() const& { return require_error(), std::get<1>(state_); }

 private:
  constexpr void require_error() const { KVPAGE_ASSERT(!has_value(), "Expected holds an error"); }

  std::variant<std::monostate, E> state_;
};

KVPAGE_END_NAMESPACE
