# Uses ccache if it is installed, unless the user chose a launcher (or none: -DCMAKE_CXX_COMPILER_LAUNCHER=).
if(PROJECT_IS_TOP_LEVEL AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(TUNESMITH_CCACHE ccache)
  mark_as_advanced(TUNESMITH_CCACHE)
  if(TUNESMITH_CCACHE)
    set(CMAKE_C_COMPILER_LAUNCHER ${TUNESMITH_CCACHE})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${TUNESMITH_CCACHE})
  endif()
endif()
