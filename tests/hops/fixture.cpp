/// \file A program with a known order of calls, for the test of the tracer and of its checker.
#include "hops/trace.hpp"

namespace fixture {

struct Engine {
  int step(int depth);
};

template <class T>
T append(T value) {
  return value + T{1};
}

int attend(int value) { return value * 2; }

int never_called(int value) { return value; }

int Engine::step(int depth) {
  auto project = [](int value) { return append<int>(value); };
  int result = 0;
  for (int layer = 0; layer < depth; ++layer) result = attend(project(result));
  return result;
}

}  // namespace fixture

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  fixture::Engine engine;
  const int before = fixture::never_called(1);
  kvpage_test::trace::start();
  const int result = engine.step(before + 1);
  const auto calls = kvpage_test::trace::stop(argv[1]);
  return result == 6 && calls >= 7 ? 0 : 1;
}
