/// \file model_digest: a fingerprint that tells the model files of a process apart, so that pages of one do not serve another.
#pragma once

#include "engine/loader/gguf.hpp"

#include <kvpage/base/sha256.hpp>

namespace kvpage::engine {

/// SHA-256 of the metadata without the vocabulary's arrays and, per tensor, of name, shape, format, first and last KiB: weights that differ
/// only between those are not told apart. Pages that outlive the process (a persistent tier) need every byte hashed. Errors: the file
/// cannot be read. Cost: milliseconds.
Expected<Sha256Digest, LoadError> model_digest(const Gguf& file);

}  // namespace kvpage::engine
