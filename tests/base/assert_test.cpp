/// \file Broken invariants reach the installed handler with their text; without one, or if it returns, the program aborts.
#include <kvpage/base/assert.hpp>

#include "support/catch.hpp"

#include <csignal>
#include <cstring>
#include <stdexcept>
#include <string>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kvpage_test {
namespace {

using kvpage::AssertInfo;
using kvpage::set_assert_handler;

[[noreturn]] void throw_text(const AssertInfo& info) { throw std::runtime_error{std::string{info.expression} + " | " + info.message}; }
void do_nothing(const AssertInfo&) {}

/// The signal that ends a child process which runs `work`, 0 if it ends well.
template <class Work>
int signal_of(const Work& work) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    std::signal(SIGABRT, SIG_DFL);  // Catch2 installs its own
    work();
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

}  // namespace

TEST_CASE("base.assert.handler_gets_expression_message_and_place", "[base]") {
  static AssertInfo seen;
  struct Seen {};
  const auto previous = set_assert_handler([](const AssertInfo& info) {
    seen = info;
    throw Seen{};
  });
  const int two = 2;
  const int line = __LINE__ + 1;
  CHECK_THROWS_AS(KVPAGE_ASSERT(two == 3, "two is three"), Seen);
  CHECK(std::string{seen.expression} == "two == 3");
  CHECK(std::string{seen.message} == "two is three");
  CHECK(std::strstr(seen.file, "assert_test.cpp") != nullptr);
  CHECK(seen.line == line);
  CHECK_NOTHROW(KVPAGE_ASSERT(two == 2, "two is two"));
  set_assert_handler(previous);
}

TEST_CASE("base.assert.install_returns_the_previous_handler", "[base]") {
  const auto original = set_assert_handler(&throw_text);
  CHECK(set_assert_handler(&do_nothing) == &throw_text);
  CHECK(set_assert_handler(original) == &do_nothing);
}

TEST_CASE("base.assert.aborts_without_a_handler_and_when_it_returns", "[base]") {
  CHECK(signal_of([] {
          set_assert_handler(nullptr);
          KVPAGE_ASSERT(false, "never");
        }) == SIGABRT);
  CHECK(signal_of([] {
          set_assert_handler(&do_nothing);
          KVPAGE_ASSERT(false, "never");
        }) == SIGABRT);
  CHECK(signal_of([] { KVPAGE_ASSERT(true, "always"); }) == 0);
}

#if KVPAGE_ASSERT_LEVEL >= 2
TEST_CASE("base.assert.slow_checks_run_at_level_2", "[base]") {
  const auto previous = set_assert_handler(&throw_text);
  CHECK_THROWS_AS(KVPAGE_ASSERT_SLOW(false, "never"), std::runtime_error);
  set_assert_handler(previous);
}
#endif

}  // namespace kvpage_test
