/// \file Pcre2Pattern: the published patterns of pre-tokenizers, run by a real regular-expression engine.
#pragma once

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "support/catch.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kvpage_test {

/// A compiled pattern over valid UTF-8.
class Pcre2Pattern {
 public:
  explicit Pcre2Pattern(const std::string& pattern) {
    int error = 0;
    std::size_t at = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF, &error, &at, nullptr));
    INFO("pattern " << pattern << ", error " << error << " at " << at);
    REQUIRE(code_ != nullptr);
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
    match_.reset(pcre2_match_data_create(1, nullptr));
  }

  /// The matches from left to right, as [begin, end) pairs. Text between matches is left out.
  std::vector<std::pair<std::size_t, std::size_t>> find_all(std::string_view text) const {
    std::vector<std::pair<std::size_t, std::size_t>> found;
    const auto* const subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    for (std::size_t at = 0; at < text.size();) {
      const int count = pcre2_match(code_.get(), subject, text.size(), at, PCRE2_NO_UTF_CHECK, match_.get(), nullptr);
      if (count == PCRE2_ERROR_NOMATCH) break;
      REQUIRE(count == 1);
      const auto* const range = pcre2_get_ovector_pointer(match_.get());
      REQUIRE(range[1] > range[0]);
      found.emplace_back(range[0], range[1]);
      at = range[1];
    }
    return found;
  }

  static std::string unicode_version() {
    char version[64] = {};
    REQUIRE(pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, version) > 0);
    return version;
  }

 private:
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
  };
  std::unique_ptr<pcre2_code, Free> code_;
  std::unique_ptr<pcre2_match_data, Free> match_;
};

}  // namespace kvpage_test
