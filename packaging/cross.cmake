# Toolchain file: Debian's cross compiler for TUNESMITH_CROSS_ARCH, with dependencies from TUNESMITH_CROSS_ROOT, where
# scripts/release.sh unpacks Debian's packages. Programs that the build runs are emulated (qemu-user).
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES TUNESMITH_CROSS_ARCH TUNESMITH_CROSS_ROOT)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${TUNESMITH_CROSS_ARCH})
set(CMAKE_LIBRARY_ARCHITECTURE ${TUNESMITH_CROSS_ARCH}-linux-gnu)
set(CMAKE_C_COMPILER ${CMAKE_LIBRARY_ARCHITECTURE}-gcc)
set(CMAKE_CXX_COMPILER ${CMAKE_LIBRARY_ARCHITECTURE}-g++)
# The root's headers that differ between architectures, such as OpenSSL's configuration.
foreach(language C CXX)
  set(CMAKE_${language}_FLAGS_INIT "-isystem ${TUNESMITH_CROSS_ROOT}/usr/include/${CMAKE_LIBRARY_ARCHITECTURE}")
endforeach()
# The cross compiler's C library, and the shared libraries of the root.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-${TUNESMITH_CROSS_ARCH};-L;/usr/${CMAKE_LIBRARY_ARCHITECTURE};-E;LD_LIBRARY_PATH=${TUNESMITH_CROSS_ROOT}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})
foreach(kind EXE SHARED)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT -Wl,-rpath-link,${TUNESMITH_CROSS_ROOT}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})
endforeach()

set(CMAKE_FIND_ROOT_PATH ${TUNESMITH_CROSS_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
