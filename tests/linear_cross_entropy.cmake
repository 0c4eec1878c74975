# Linear + cross-entropy: how tokens are divided, matrix products, the two ends of a mean, and all of it together.
tunesmith_test(linear_cross_entropy_test LIBRARIES tunesmith_api SOURCES
  cross_entropy_ends_test.cpp host_matmul_test.cpp linear_chunks_test.cpp linear_cross_entropy_c_test.cpp
  linear_cross_entropy_reference.cpp linear_cross_entropy_test.cpp)
tunesmith_test(linear_cross_entropy_gpu_test LIBRARIES tunesmith_api LABELS gpu SOURCES
  cublas_lt_gpu_test.cpp linear_cross_entropy_gpu_test.cpp linear_cross_entropy_reference.cpp)

# Its declarations against the toolkit's header where that is installed, as for the driver and NVRTC.
tunesmith_test(cublas_lt_test LIBRARIES tunesmith_jit_cuda LABELS cuda
  SOURCES ${PROJECT_SOURCE_DIR}/tests/cublas_lt_interface_test.cpp ${PROJECT_SOURCE_DIR}/tests/cublas_lt_test.cpp)
target_link_libraries(cublas_lt_test PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)
if(TUNESMITH_TOOLKIT_HEADERS AND EXISTS ${TUNESMITH_TOOLKIT_HEADERS}/cublasLt.h)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/tests/cublas_lt_interface_test.cpp PROPERTIES COMPILE_OPTIONS
    "-isystem;${TUNESMITH_TOOLKIT_HEADERS};-include;cublasLt.h")
endif()

add_test(NAME example.linear_cross_entropy COMMAND tunesmith_example_linear_cross_entropy)
set_tests_properties(example.linear_cross_entropy PROPERTIES
  ENVIRONMENT "TUNESMITH_CACHE=;TUNESMITH_MODE=replay" TIMEOUT 120 PASS_REGULAR_EXPRESSION "mean loss [67]\\.[0-9]")
