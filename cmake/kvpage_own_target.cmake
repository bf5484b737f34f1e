# kvpage_own_target(<target>): how this project compiles its own programs (never what consumers get).

find_program(KVPAGE_CCACHE ccache)
mark_as_advanced(KVPAGE_CCACHE)
if(PROJECT_IS_TOP_LEVEL AND KVPAGE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${KVPAGE_CCACHE}")
endif()

find_package(Threads REQUIRED)

# Strict warnings, shared with the header checks in tests/headers.
set(KVPAGE_STRICT_WARNINGS -Wall -Wextra -Wconversion -Wshadow -Wsign-compare -Werror)

function(kvpage_own_target target)
  target_compile_options(${target} PRIVATE ${KVPAGE_STRICT_WARNINGS}
    # g++ 12 sees overlapping copies in plain std::string sums (GCC bug 105651); later versions do not.
    $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
    -ffp-contract=off) # the same bits on every machine: a fused multiply-add is written as one
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/examples")
  target_link_libraries(${target} PRIVATE kvpage::kvpage Threads::Threads)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
endfunction()
