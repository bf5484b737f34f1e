/// \file TablesChecked: how a caller says that the tables of a launch were checked before, and validate_launch, which checks all of it.
#pragma once

#include <kvpage/base/error.hpp>

KVPAGE_BEGIN_NAMESPACE

/// The last argument of a launcher that shall not look into tables (ids, lengths, slots, positions): `validate_tables` accepted them,
/// once for all layers of a step. What host numbers say (`validate`) is checked all the same, in O(1).
struct TablesChecked {};
inline constexpr TablesChecked kTablesChecked{};

/// The error of a launch that cannot run, or ok: of its numbers and pointers, then of what is in its tables.
template <class Args>
Status validate_launch(const Args& args) noexcept {
  if (const Status status = validate(args); !status.ok()) return status;
  return validate_tables(args);
}

KVPAGE_END_NAMESPACE
