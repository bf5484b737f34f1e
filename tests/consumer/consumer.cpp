/// \file A user's program over the library: it answers 0 when every part does what its documentation says.
#include "consumer.hpp"

#include <kvpage/base/error.hpp>
#include <kvpage/base/version.hpp>
#include <kvpage/precision/precisions.hpp>

#include <cstdio>
#include <string_view>

namespace {

int failures = 0;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::printf("not true: %s\n", what);
  ++failures;
}

void check_precisions() {
  int count = 0;
  kvpage::for_each_type(kvpage::Precisions{}, [&]<class P>() {
    ++count;
    expect(P::decode(P::encode(1.0f)) == 1.0f, "1 survives every precision");
  });
  expect(count >= 7, "seven precisions are shipped");
}

void check_errors() {
  try {
    kvpage::throw_config_error("block_size must be positive", -1, 1, "tokens");
  } catch (const kvpage::ConfigError& error) {
    expect(error.value() == -1 && std::string_view{error.unit()} == "tokens", "a ConfigError carries value and unit");
    return;
  }
  expect(false, "a bad configuration throws");
}

}  // namespace

int main() {
  check_precisions();
  check_errors();
  expect(precisions_seen_by_the_other_unit() == kvpage::Precisions::kSize, "two units see one library");
  std::printf("kvpage %d.%d.%d: %d failures\n", KVPAGE_VERSION_MAJOR, KVPAGE_VERSION_MINOR, KVPAGE_VERSION_PATCH, failures);
  return failures == 0 ? 0 : 1;
}
