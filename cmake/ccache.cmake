# Uses ccache if it is installed, unless the user chose a launcher (or none: -DCMAKE_CXX_COMPILER_LAUNCHER=). Paths in the
# checkout are hashed as relative ones, so that a second checkout finds the objects of the first.
if(PROJECT_IS_TOP_LEVEL AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(TUNESMITH_CCACHE ccache)
  mark_as_advanced(TUNESMITH_CCACHE)
  if(TUNESMITH_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=true CCACHE_ABSSTDERR=true ${TUNESMITH_CCACHE})
    set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  endif()
endif()
