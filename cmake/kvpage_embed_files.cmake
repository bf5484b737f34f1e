# kvpage_embed_files(<target> <file>...): puts text files into the program; tools/kvpage/embedded_file.hpp finds them by name.
# As a script (-P) with OUTPUT and FILES it writes the source file that holds them.

if(CMAKE_SCRIPT_MODE_FILE)
  set(source "#include \"tools/kvpage/embedded_file.hpp\"\n\n#include <kvpage/base/assert.hpp>\n\n")
  string(APPEND source "std::string_view kvpage::cli::embedded_file(std::string_view name) {\n")
  foreach(path IN LISTS FILES)
    file(READ "${path}" text)
    cmake_path(GET path FILENAME name)
    string(APPEND source "  if (name == \"${name}\") return R\"embedded(${text})embedded\";\n")
  endforeach()
  string(APPEND source "  KVPAGE_ASSERT(false, \"the file is inside the program\");\n  return {};\n}\n")
  file(WRITE "${OUTPUT}" "${source}")
  return()
endif()

function(kvpage_embed_files target)
  set(output "${CMAKE_CURRENT_BINARY_DIR}/${target}_embedded_files.cpp")
  add_custom_command(OUTPUT "${output}" VERBATIM DEPENDS ${ARGN} "${CMAKE_CURRENT_FUNCTION_LIST_FILE}"
    COMMAND "${CMAKE_COMMAND}" "-DOUTPUT=${output}" "-DFILES=${ARGN}" -P "${CMAKE_CURRENT_FUNCTION_LIST_FILE}")
  target_sources(${target} PRIVATE "${output}")
endfunction()
