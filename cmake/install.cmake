# Installs the shared library, its public headers, the command line, and the files for find_package(tunesmith) and pkg-config.
# The static libraries of the folders are not installed, because libtunesmith.so contains them.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(tunesmith_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tunesmith)

install(TARGETS tunesmith EXPORT tunesmithTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(folder IN LISTS TUNESMITH_INCLUDE_FOLDERS)
  install(DIRECTORY ${folder}/tunesmith DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
endforeach()
install(EXPORT tunesmithTargets NAMESPACE tunesmith:: DESTINATION ${tunesmith_package_dir})

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tunesmithConfig.cmake.in
  ${PROJECT_BINARY_DIR}/tunesmithConfig.cmake INSTALL_DESTINATION ${tunesmith_package_dir})
# Before 1.0, every minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tunesmithConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tunesmithConfig.cmake ${PROJECT_BINARY_DIR}/tunesmithConfigVersion.cmake
  DESTINATION ${tunesmith_package_dir})

# Paths are relative to the file, so that an installed tree can be moved; absolute only if the user chose absolute ones.
foreach(kind LIBDIR INCLUDEDIR)
  if(IS_ABSOLUTE ${CMAKE_INSTALL_${kind}})
    set(tunesmith_pc_${kind} ${CMAKE_INSTALL_${kind}})
  else()
    set(tunesmith_pc_${kind} "\${prefix}/${CMAKE_INSTALL_${kind}}")
  endif()
endforeach()
string(REGEX REPLACE "[^/]+" ".." tunesmith_pc_up "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
configure_file(${PROJECT_SOURCE_DIR}/cmake/tunesmith.pc.in ${PROJECT_BINARY_DIR}/tunesmith.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tunesmith.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(TARGET tunesmith_cli)
  file(RELATIVE_PATH tunesmith_bin_to_lib /prefix/${CMAKE_INSTALL_BINDIR} /prefix/${CMAKE_INSTALL_LIBDIR})
  set_target_properties(tunesmith_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${tunesmith_bin_to_lib}")
  install(TARGETS tunesmith_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES ${PROJECT_BINARY_DIR}/share/completions/tunesmith
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${PROJECT_BINARY_DIR}/share/completions/_tunesmith DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
endif()

# The shipped tuning results; programs find them relative to themselves (cache/shipped/).
install(FILES ${TUNESMITH_SHIPPED_CACHE} DESTINATION ${CMAKE_INSTALL_DATADIR}/tunesmith)

# Examples of score_mod and mask_mod.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/api/examples/mods DESTINATION ${CMAKE_INSTALL_DATADIR}/tunesmith
  FILES_MATCHING PATTERN "*.cu")

install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/tunesmith)
