# Attention kernels.
tunesmith_test(attention_descriptor_test LIBRARIES tunesmith_templates SOURCES attention_descriptor_test.cpp softmax_cases.cpp)
tunesmith_test(attention_host_test LIBRARIES tunesmith_api
  SOURCES attention_host_test.cpp attention_cases.cpp attention_mods.cpp softmax_cases.cpp TIMEOUT 900)
tunesmith_test(attention_split_test LIBRARIES tunesmith_api SOURCES attention_split_test.cpp softmax_cases.cpp TIMEOUT 900)
tunesmith_test(attention_nvrtc_test LIBRARIES tunesmith_api
  SOURCES attention_nvrtc_test.cpp attention_cases.cpp attention_mask_nvrtc_test.cpp attention_masks.cpp attention_mods.cpp
          softmax_cases.cpp source_compilation.cpp
  TIMEOUT 900)
tunesmith_test(attention_gpu_test LIBRARIES tunesmith_api LABELS gpu
  SOURCES attention_gpu_test.cpp attention_cases.cpp attention_mask_gpu_test.cpp attention_masks.cpp attention_mods.cpp
          gpu_kernels.cpp softmax_cases.cpp
  TIMEOUT 900)
