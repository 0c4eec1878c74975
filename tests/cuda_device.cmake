# The CUDA device: against a scripted driver everywhere, on the GPU where there is one, and the declarations of the two
# interfaces against the toolkit's headers where those are installed.
foreach(age "" _old)
  add_library(fake_libcuda${age} MODULE ${PROJECT_SOURCE_DIR}/tests/cuda_device_fake.cpp)
  target_include_directories(fake_libcuda${age} PRIVATE ${PROJECT_SOURCE_DIR})
  tunesmith_warnings(fake_libcuda${age})
endforeach()
target_compile_definitions(fake_libcuda_old PRIVATE TUNESMITH_FAKE_OLD_DRIVER)

tunesmith_test(cuda_device_test LIBRARIES tunesmith_jit_cuda LABELS cuda
  SOURCES ${PROJECT_SOURCE_DIR}/tests/cuda_device_test.cpp
          ${PROJECT_SOURCE_DIR}/tests/cuda_device_timing_test.cpp
          ${PROJECT_SOURCE_DIR}/tests/cuda_device_interface_test.cpp)
add_dependencies(cuda_device_test fake_libcuda fake_libcuda_old)
target_link_libraries(cuda_device_test PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)
target_compile_definitions(cuda_device_test PRIVATE
  FAKE_LIBCUDA="$<TARGET_FILE:fake_libcuda>" FAKE_LIBCUDA_OLD="$<TARGET_FILE:fake_libcuda_old>")

find_path(TUNESMITH_TOOLKIT_HEADERS cuda.h HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES include)
if(TUNESMITH_TOOLKIT_HEADERS AND EXISTS ${TUNESMITH_TOOLKIT_HEADERS}/nvrtc.h)
  # Put in front by the build, not by an #include: no file of the tree may need a toolkit.
  set_source_files_properties(${PROJECT_SOURCE_DIR}/tests/cuda_device_interface_test.cpp PROPERTIES COMPILE_OPTIONS
    "-isystem;${TUNESMITH_TOOLKIT_HEADERS};-include;cuda.h;-include;nvrtc.h")
endif()

tunesmith_test(tensor_map_test LIBRARIES tunesmith_jit LABELS cuda SOURCES ${PROJECT_SOURCE_DIR}/tests/tensor_map_test.cpp)
add_dependencies(tensor_map_test fake_libcuda)
target_link_libraries(tensor_map_test PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)
target_compile_definitions(tensor_map_test PRIVATE FAKE_LIBCUDA="$<TARGET_FILE:fake_libcuda>")

tunesmith_test(cuda_device_gpu_test LIBRARIES tunesmith_jit_cuda LABELS gpu
  SOURCES ${PROJECT_SOURCE_DIR}/tests/cuda_device_gpu_test.cpp)
target_link_libraries(cuda_device_gpu_test PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)

tunesmith_test(tensor_map_gpu_test LIBRARIES tunesmith_jit LABELS gpu
  SOURCES ${PROJECT_SOURCE_DIR}/tests/tensor_map_gpu_test.cpp)
