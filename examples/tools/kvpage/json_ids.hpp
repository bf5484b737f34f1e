/// \file Reading JSON, its lines and token ids, with errors that name the place.
#pragma once

#include "tools/kvpage/failure.hpp"

#include <kvpage/base/types.hpp>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace kvpage::cli {

/// Largest id that a text may hold before a vocabulary is known.
inline constexpr std::int64_t kMostIds = std::int64_t{1} << 32;

/// A JSON document. Errors: Failure with kExitUsage, "name: ...".
nlohmann::json parse_document(const std::string& text, const std::string& name);

/// Calls `use` with each line that is not blank and its number. Errors: Failure with kExitUsage, "name:line: ..." for bad JSON and whatever
/// `use` throws.
void for_each_json_line(const std::string& text, const std::string& name,
                        const std::function<void(const nlohmann::json&, std::int64_t line)>& use);

/// An array of ids below `most`, called `key` in errors. Errors: std::runtime_error.
std::vector<TokenId> read_ids(const nlohmann::json& value, const std::string& key, std::int64_t most = kMostIds);

/// "[1, 2, 3]".
std::string json_array(const std::vector<TokenId>& ids);

}  // namespace kvpage::cli
