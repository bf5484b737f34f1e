/// \file Request files: one JSON object per line, each a request and when it arrives.
#pragma once

#include "engine/sampling/generation_request.hpp"
#include "engine/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace kvpage::cli {

/// A request of a run.
struct TimedRequest {
  std::int64_t arrival_ns = 0;         ///< after the start of the run
  std::int64_t deadline_ns = 0;        ///< after its arrival; 0 = none
  engine::GenerationRequest request;   ///< its own deadlines are set when it is submitted: they are on the engine's clock
};

struct RequestLine;

/// The requests of a file as far as they can be read and judged without a model; empty lines are skipped. Ids differ; 1 and "1" are the
/// same. Greedy unless a line says otherwise.
/// Errors: Failure with kExitUsage that names the file, the line and the field.
std::vector<RequestLine> read_request_lines(const std::string& text, const std::string& file_name);

/// The requests, in order. Texts become ids as `run --raw` makes them: BOS if the model wants it, and special tokens written in the text
/// count. Errors: as read_request_lines, for ids that the vocabulary lacks.
std::vector<TimedRequest> to_requests(std::vector<RequestLine> lines, const std::string& file_name, const engine::Tokenizer& tokenizer,
                                      std::int64_t vocab_size);

/// Every field that a line may have, one per line of text, with its values.
std::string request_fields_help();

}  // namespace kvpage::cli
