tunesmith_test(templates_test LIBRARIES tunesmith_templates SOURCES
  half_test.cpp render_test.cpp softmax_cases.cpp softmax_default_test.cpp softmax_descriptor_test.cpp softmax_launch_test.cpp
  softmax_reference_test.cpp softmax_space_test.cpp)
