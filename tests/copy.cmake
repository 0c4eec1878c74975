# The roof that other operations are measured against.
tunesmith_test(copy_test LIBRARIES tunesmith_api SOURCES copy_test.cpp softmax_cases.cpp)
