/// \file The files of tools/kvpage/pages, inside the program.
#pragma once

#include <string_view>

namespace kvpage::cli {

/// Text of a file by its name. Requires: the file exists. Defined in a source that the build generates.
std::string_view embedded_file(std::string_view name);

}  // namespace kvpage::cli
