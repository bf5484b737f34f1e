/// \file model_digest: a fingerprint of a model file, so that cached keys and values of one model never serve another.
#pragma once

#include "engine/loader/gguf.hpp"

#include <kvpage/base/sha256.hpp>

namespace kvpage::engine {

/// SHA-256 over the metadata without the vocabulary's arrays, and of each tensor the name, shape, format and the first and last KiB.
/// Files that differ in sizes, settings or training differ here; it does not prove that every byte is equal. Cost: some milliseconds.
Sha256Digest model_digest(const Gguf& file);

}  // namespace kvpage::engine
