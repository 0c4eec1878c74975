tunesmith_test(host_executor_test
  LIBRARIES tunesmith_jit_host
  SOURCES host_executor_compiler_test.cpp
          host_executor_conversions_test.cpp
          host_executor_faults_test.cpp
          host_executor_platform_test.cpp
          host_executor_sanitizer_test.cpp
          host_executor_sources_test.cpp)
tunesmith_test(workspaces_test LIBRARIES tunesmith_jit SOURCES workspaces_test.cpp)
