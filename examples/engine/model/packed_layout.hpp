/// \file packed_layout: what the panels of a model mean, as a fingerprint: equal ones are equal byte for byte.
#pragma once

#include "engine/loader/gguf.hpp"
#include "engine/loader/hash128.hpp"
#include "engine/model/model_spec.hpp"

namespace kvpage::engine {

/// Of all matrices in the order in which they are packed: name, shape, format, and where the format's kernels put each byte (found by
/// packing a known panel, so that no change of a layout can be forgotten). Requires: check_tensors holds.
Hash128 packed_layout(const Gguf& file, const ModelSpec& spec);

}  // namespace kvpage::engine
