/// \file The list of backends that the program can choose from, the default first.
#pragma once

#include "engine/backend/backend.hpp"
#include "engine/backend/cpu_backend.hpp"
#include "engine/backend/reference_backend.hpp"

#include <kvpage/base/types.hpp>

namespace kvpage::engine {

using Backends = TypeList<CpuBackend, ReferenceBackend>;

static_assert(Backend<CpuBackend>);
static_assert(Backend<ReferenceBackend>);

}  // namespace kvpage::engine
