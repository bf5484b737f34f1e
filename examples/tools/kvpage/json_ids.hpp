/// \file Reading JSON lines and token ids, with errors that name the place.
#pragma once

#include "tools/kvpage/failure.hpp"

#include <kvpage/base/types.hpp>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace kvpage::cli {

/// Calls `use` with each line that is not blank. Errors: Failure with kExitUsage, "name:line: ..." for bad JSON and whatever `use` throws.
void for_each_json_line(const std::string& text, const std::string& name, const std::function<void(const nlohmann::json&)>& use);

/// An array of ids below vocab_size, called `key` in errors. Errors: std::runtime_error.
std::vector<TokenId> read_ids(const nlohmann::json& value, const char* key, std::int64_t vocab_size);

/// A value as errors show it: JSON in ASCII, shortened.
std::string shown(const nlohmann::json& value);

/// "[1, 2, 3]".
std::string json_array(const std::vector<TokenId>& ids);

}  // namespace kvpage::cli
