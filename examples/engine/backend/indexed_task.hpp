/// \file IndexedTask: a reference to a callable that does the parts of a job, one index at a time.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace kvpage::engine {

/// Refers to any callable that takes an index. It owns nothing and allocates nothing: the callable must outlive it, as a lambda in
/// the argument of a call does.
class IndexedTask {
 public:
  template <class Fn>
    requires(!std::same_as<std::remove_cvref_t<Fn>, IndexedTask> && std::invocable<Fn&, std::int64_t>)
  IndexedTask(Fn&& fn) noexcept
      : context_(const_cast<void*>(static_cast<const void*>(std::addressof(fn)))),
        call_([](void* context, std::int64_t index) { (*static_cast<std::remove_reference_t<Fn>*>(context))(index); }) {}

  void operator()(std::int64_t index) const { call_(context_, index); }

 private:
  void* context_;
  void (*call_)(void*, std::int64_t);
};

}  // namespace kvpage::engine
