/// \file The switch of mutants: KVPAGE_MUTANT=N turns mutant N on; KVPAGE_MUTANTS_REACHED=FILE writes the numbers of those that were asked.
#pragma once

#include <array>
#include <atomic>
#include <concepts>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

namespace kvpage_mutation {

class Switch {
 public:
  static constexpr int kMaxMutants = 4096;

  Switch() : reached_path_(std::getenv("KVPAGE_MUTANTS_REACHED")) {
    if (const char* text = std::getenv("KVPAGE_MUTANT")) number_ = std::atoi(text);
  }
  ~Switch() {
    std::FILE* file = reached_path_ ? std::fopen(reached_path_, "w") : nullptr;
    if (!file) return;
    for (int i = 0; i < kMaxMutants; ++i) {
      if (reached_[static_cast<std::size_t>(i)].load()) std::fprintf(file, "%d\n", i);
    }
    std::fclose(file);
  }
  bool is_on(int number) noexcept {
    if (reached_path_) reached_[static_cast<std::size_t>(number)].store(true, std::memory_order_relaxed);
    return number == number_;
  }

 private:
  const char* reached_path_;
  int number_ = 0;
  std::array<std::atomic<bool>, kMaxMutants> reached_{};
};

inline bool asks(int number) noexcept {
  static Switch the_switch;
  return the_switch.is_on(number);
}
/// What the compiler computes itself is not mutated.
constexpr bool on(int number) noexcept { return !std::is_constant_evaluated() && asks(number); }

template <class T>
concept Number = (std::integral<T> && !std::same_as<T, bool>) || std::floating_point<T>;

/// A whole number becomes one more, another one more by 1/256.
template <Number T>
constexpr T raised(T value) noexcept {
  if constexpr (std::integral<T>) return static_cast<T>(value + 1);
  return value == T{0} ? T{1} : value * T{1.00390625};
}
template <int kNumber, Number T>
constexpr T more(T value) noexcept {
  return on(kNumber) ? raised(value) : value;
}
/// For constants: the compiler would compute `more` itself.
template <int kNumber, Number T>
T more_at_start(T value) noexcept {
  return asks(kNumber) ? raised(value) : value;
}
template <int kNumber, Number T>
constexpr T less(T value) noexcept {
  if (!on(kNumber)) return value;
  if constexpr (std::integral<T>) return static_cast<T>(value - 1);
  return value == T{0} ? T{-1} : value * T{0.99609375};
}

#define KVPAGE_MUTATION_COMPARE(Name, Side, plain, other)                                    \
  template <class A>                                                                         \
  struct Name##Left {                                                                        \
    const A& a;                                                                              \
    int number;                                                                              \
    template <class B>                                                                       \
    constexpr bool operator Side(const B& b) const noexcept {                                \
      return on(number) ? a other b : a plain b;                                             \
    }                                                                                        \
  };                                                                                         \
  struct Name {                                                                              \
    int number;                                                                              \
    template <class A>                                                                       \
    friend constexpr Name##Left<A> operator Side(const A& a, Name name) noexcept {           \
      return {a, name.number};                                                               \
    }                                                                                        \
  };
KVPAGE_MUTATION_COMPARE(Less, <, <, <=)
KVPAGE_MUTATION_COMPARE(LessEqual, <, <=, <)
KVPAGE_MUTATION_COMPARE(Greater, <, >, >=)
KVPAGE_MUTATION_COMPARE(GreaterEqual, <, >=, >)
KVPAGE_MUTATION_COMPARE(Equal, ==, ==, !=)
KVPAGE_MUTATION_COMPARE(NotEqual, ==, !=, ==)
#undef KVPAGE_MUTATION_COMPARE

}  // namespace kvpage_mutation
