/// \file InterruptScope: Ctrl-C asks the work to stop instead of killing the program.
#pragma once

#include <csignal>

namespace kvpage::cli {

/// While it lives, the first SIGINT (or SIGTERM) is a request; a second one ends the program as usual.
class InterruptScope {
 public:
  InterruptScope() {
    flag() = 0;
    struct sigaction action {};
    action.sa_handler = [](int) { flag() = 1; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &before_int_);
    sigaction(SIGTERM, &action, &before_term_);
  }
  ~InterruptScope() {
    sigaction(SIGINT, &before_int_, nullptr);
    sigaction(SIGTERM, &before_term_, nullptr);
  }
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  bool requested() const noexcept { return flag() != 0; }

 private:
  static volatile std::sig_atomic_t& flag() noexcept {
    static volatile std::sig_atomic_t requested = 0;
    return requested;
  }

  struct sigaction before_int_ {};
  struct sigaction before_term_ {};
};

}  // namespace kvpage::cli
