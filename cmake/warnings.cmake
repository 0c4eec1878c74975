# Public headers are in the folders of what they describe: core/, the folder of each operation, api/.
file(GLOB TUNESMITH_INCLUDE_FOLDERS CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/core/include ${PROJECT_SOURCE_DIR}/templates/*/include ${PROJECT_SOURCE_DIR}/api/include)

# tunesmith_library(name sources...): adds a static library with the project's warnings and include folders.
# -Wrestrict is off because GCC 12 and 13 raise it inside std::string at -O2 (GCC bug 105651).
function(tunesmith_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
    -Wnon-virtual-dtor -Woverloaded-virtual $<$<BOOL:${TUNESMITH_WERROR}>:-Werror>)
endfunction()

# tunesmith_unity(target): compiles the sources of a folder together, because headers take most of a compilation's time. Names
# in anonymous namespaces are therefore unique in their folder. TUNESMITH_UNITY=OFF compiles each source alone, which is faster
# while one source changes often.
function(tunesmith_unity target)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  foreach(source ${sources})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${TUNESMITH_UNITY} UNITY_BUILD_MODE GROUP)
endfunction()

function(tunesmith_library target)
  add_library(${target} STATIC ${ARGN})
  tunesmith_unity(${target})
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR} ${TUNESMITH_INCLUDE_FOLDERS})
  tunesmith_warnings(${target})
endfunction()

# tunesmith_optimized(target): optimizes the library in the Debug build as well. Tests spend most of their time in float64
# references and in the host executor's fibers, which take three times as long without optimization.
function(tunesmith_optimized target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Debug>:-O1>)
endfunction()
