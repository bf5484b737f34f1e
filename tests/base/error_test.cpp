/// \file ConfigError and Status carry the value, the limit and a sentence.
#include <kvpage/base/error.hpp>

#include "support/catch.hpp"

#include <string>
#include <type_traits>

namespace kvpage_test {

TEST_CASE("base.config_error.tells_value_limit_and_unit", "[base]") {
  try {
    kvpage::throw_config_error("block_size must be a power of two", 24, 256, "tokens");
    FAIL("nothing was thrown");
  } catch (const kvpage::ConfigError& error) {
    CHECK(std::string{error.what()} == "block_size must be a power of two");
    CHECK(error.value() == 24);
    CHECK(error.limit() == 256);
    CHECK(std::string{error.unit()} == "tokens");
  }
  CHECK_THROWS_AS(kvpage::throw_config_error("x", 0, 0, ""), std::exception);
}

TEST_CASE("base.status.ok_by_default_else_code_and_numbers", "[base]") {
  constexpr kvpage::Status ok;
  static_assert(ok.ok() && ok.code() == kvpage::StatusCode::kOk);
  constexpr kvpage::Status failed{kvpage::StatusCode::kCapacity, "workspace is too small", 4096, 1024};
  static_assert(!failed.ok() && failed.value() == 4096 && failed.limit() == 1024);
  CHECK(std::string{failed.message()} == "workspace is too small");
  static_assert(std::is_trivially_copyable_v<kvpage::Status>);
}

}  // namespace kvpage_test
