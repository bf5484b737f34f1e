# Install rules: headers, a relocatable CMake package and a pkg-config file.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(kvpage_package_dir "${CMAKE_INSTALL_DATADIR}/cmake/kvpage")
install(TARGETS kvpage EXPORT kvpageTargets FILE_SET HEADERS)
install(EXPORT kvpageTargets NAMESPACE kvpage:: DESTINATION "${kvpage_package_dir}")

configure_package_config_file(cmake/kvpageConfig.cmake.in "${PROJECT_BINARY_DIR}/kvpageConfig.cmake"
  INSTALL_DESTINATION "${kvpage_package_dir}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/kvpageConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT) # before 1.0 a minor version may break
install(FILES "${PROJECT_BINARY_DIR}/kvpageConfig.cmake" "${PROJECT_BINARY_DIR}/kvpageConfigVersion.cmake"
  DESTINATION "${kvpage_package_dir}")

configure_file(cmake/kvpage.pc.in "${PROJECT_BINARY_DIR}/kvpage.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/kvpage.pc" DESTINATION "${CMAKE_INSTALL_DATADIR}/pkgconfig")
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/kvpage")
