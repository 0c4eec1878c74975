# The kernels themselves: compiled for every architecture, and their numerics on the host executor and on a GPU.
tunesmith_test(softmax_nvrtc_test LIBRARIES tunesmith_api
  SOURCES softmax_nvrtc_test.cpp softmax_cases.cpp source_compilation.cpp TIMEOUT 900)
tunesmith_test(softmax_host_test LIBRARIES tunesmith_api
  SOURCES softmax_host_test.cpp softmax_cases.cpp softmax_launches.cpp TIMEOUT 900)
tunesmith_test(softmax_gpu_test LIBRARIES tunesmith_api LABELS gpu
  SOURCES softmax_gpu_test.cpp gpu_kernels.cpp softmax_cases.cpp softmax_launches.cpp TIMEOUT 900)
