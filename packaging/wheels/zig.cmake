# Toolchain file: zig for TUNESMITH_WHEEL_ARCH with the C library of manylinux_2_28, and dependencies from TUNESMITH_WHEEL_ROOT,
# where scripts/portable_wheel.sh unpacks Debian's packages.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${TUNESMITH_WHEEL_ARCH})
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES TUNESMITH_WHEEL_ARCH TUNESMITH_WHEEL_ROOT)
set(CMAKE_C_COMPILER ${CMAKE_CURRENT_LIST_DIR}/zig-cc)
set(CMAKE_CXX_COMPILER ${CMAKE_CURRENT_LIST_DIR}/zig-c++)
set(CMAKE_AR ${CMAKE_CURRENT_LIST_DIR}/zig-ar CACHE FILEPATH "")
set(CMAKE_RANLIB ${CMAKE_CURRENT_LIST_DIR}/zig-ranlib CACHE FILEPATH "")
set(CMAKE_C_FLAGS_INIT "-target ${TUNESMITH_WHEEL_ARCH}-linux-gnu.2.28 -mcpu=baseline")
set(CMAKE_CXX_FLAGS_INIT "${CMAKE_C_FLAGS_INIT}")
foreach(kind EXE SHARED MODULE)  # zig's linker strips for every architecture
  set(CMAKE_${kind}_LINKER_FLAGS_INIT -s)
endforeach()

set(CMAKE_LIBRARY_ARCHITECTURE ${TUNESMITH_WHEEL_ARCH}-linux-gnu)
set(CMAKE_FIND_ROOT_PATH ${TUNESMITH_WHEEL_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)  # nanobind lies in a Python environment
