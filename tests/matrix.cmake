# What attention is written against: tensor cores, matrices through shared memory, asynchronous copies.
tunesmith_test(matrix_host_test LIBRARIES tunesmith_jit
  SOURCES matrix_host_test.cpp async_copy_host_test.cpp matrix_kernels.cpp)
tunesmith_test(matrix_nvrtc_test LIBRARIES tunesmith_jit LABELS nvrtc SOURCES matrix_nvrtc_test.cpp matrix_kernels.cpp)
tunesmith_test(matrix_gpu_test LIBRARIES tunesmith_jit LABELS gpu SOURCES matrix_gpu_test.cpp matrix_kernels.cpp)
