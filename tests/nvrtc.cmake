# NVRTC: no GPU is needed; tests that need the library skip where there is none.
tunesmith_test(nvrtc_test LIBRARIES tunesmith_jit_cuda LABELS nvrtc
  SOURCES ${PROJECT_SOURCE_DIR}/tests/nvrtc_test.cpp
          ${PROJECT_SOURCE_DIR}/tests/nvrtc_search_test.cpp
          ${PROJECT_SOURCE_DIR}/tests/nvrtc_log_test.cpp)
target_link_libraries(nvrtc_test PRIVATE Threads::Threads)

tunesmith_test(tensor_map_nvrtc_test LIBRARIES tunesmith_jit LABELS nvrtc
  SOURCES ${PROJECT_SOURCE_DIR}/tests/tensor_map_nvrtc_test.cpp)
