/// \file Request files: one JSON object per line, each a request.
#pragma once

#include "engine/serial_requests.hpp"
#include "engine/tokenizer/tokenizer.hpp"

#include <string>
#include <vector>

namespace kvpage::cli {

/// The requests of a file, in order; empty lines are skipped. Texts become ids as `run --raw` makes them: BOS if the model wants it, and
/// special tokens written in the text count. Ids differ; 1 and "1" are the same. Errors: Failure with kExitUsage that names the file, the
/// line and the field.
std::vector<engine::EngineRequest> read_requests(const std::string& text, const std::string& file_name, const engine::Tokenizer& tokenizer,
                                                 std::int64_t vocab_size);

}  // namespace kvpage::cli
