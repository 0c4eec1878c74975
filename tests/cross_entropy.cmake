# Kernels of the cross-entropy family.
tunesmith_test(cross_entropy_host_test LIBRARIES tunesmith_api
  SOURCES cross_entropy_host_test.cpp cross_entropy_cases.cpp softmax_cases.cpp TIMEOUT 900)
tunesmith_test(cross_entropy_nvrtc_test LIBRARIES tunesmith_api
  SOURCES cross_entropy_nvrtc_test.cpp cross_entropy_cases.cpp softmax_cases.cpp source_compilation.cpp TIMEOUT 900)
tunesmith_test(cross_entropy_gpu_test LIBRARIES tunesmith_api LABELS gpu
  SOURCES cross_entropy_gpu_test.cpp cross_entropy_cases.cpp gpu_kernels.cpp softmax_cases.cpp softmax_launches.cpp
  TIMEOUT 900)
