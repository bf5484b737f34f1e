# kvpage_add_test(<area> SOURCES a_test.cpp ... [LIBRARIES lib ...] [SANITIZE] [RACES] [LABELS label ...])
#
# One program kvpage_test_<area>; every TEST_CASE in it becomes its own ctest entry (own process) whose labels are its
# Catch tags plus LABELS. A test that exits with 77 counts as skipped. SANITIZE: the area is also built and run with the
# sanitizers (target kvpage_sanitized_tests and label `sanitize` of preset asan). RACES: and with the thread sanitizer
# (target kvpage_race_tests and label `race` of preset tsan).

find_package(Catch2 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)

add_library(kvpage_catch_main OBJECT "${PROJECT_SOURCE_DIR}/tests/support/catch_main.cpp")
kvpage_own_target(kvpage_catch_main)
target_link_libraries(kvpage_catch_main PUBLIC Catch2::Catch2)

add_custom_target(kvpage_sanitized_tests)
add_custom_target(kvpage_race_tests)

function(kvpage_add_test area)
  cmake_parse_arguments(PARSE_ARGV 1 arg "SANITIZE;RACES" "" "SOURCES;LIBRARIES;LABELS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
    message(FATAL_ERROR "kvpage_add_test(${area}): needs SOURCES; not understood: '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  set(target kvpage_test_${area})
  set(entries "${CMAKE_CURRENT_BINARY_DIR}/${target}_entries.cmake")
  set(discover "${PROJECT_SOURCE_DIR}/tests/support/discover_tests.py")
  if(arg_SANITIZE)
    list(APPEND arg_LABELS sanitize)
    add_dependencies(kvpage_sanitized_tests ${target})
  endif()
  if(arg_RACES)
    list(APPEND arg_LABELS race)
    add_dependencies(kvpage_race_tests ${target})
  endif()

  add_executable(${target} ${arg_SOURCES})
  kvpage_own_target(${target})
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_compile_definitions(${target} PRIVATE KVPAGE_TEST_DATA_DIR="${PROJECT_SOURCE_DIR}/tests/data")
  target_link_libraries(${target} PRIVATE ${arg_LIBRARIES} kvpage_catch_main nlohmann_json::nlohmann_json)
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${discover}")
  add_custom_command(TARGET ${target} POST_BUILD VERBATIM
    COMMAND Python3::Interpreter "${discover}" --program "$<TARGET_FILE:${target}>" --output "${entries}"
            --area ${area} --labels "${arg_LABELS}")

  # Until the program is built, ctest shows one failing entry instead of silently running nothing.
  file(WRITE "${entries}.in" "if(EXISTS \"${entries}\")\n  include(\"${entries}\")\nelse()\n"
    "  add_test(${area}.not_built \"/bin/sh\" \"-c\" \"echo ${target} is not built; exit 1\")\n"
    "  set_tests_properties(${area}.not_built PROPERTIES LABELS \"${arg_LABELS}\")\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${entries}.in")
endfunction()
