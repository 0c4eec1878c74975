tunesmith_test(api_test LIBRARIES tunesmith_api SOURCES
  api_attention_test.cpp api_bad_input_test.cpp api_c_test.cpp api_cross_entropy_test.cpp api_dispatch_test.cpp api_engine_test.cpp
  api_options_test.cpp api_shipped_test.cpp api_single_flight_test.cpp api_softmax_test.cpp)
# By itself: it replaces operator new.
tunesmith_test(api_hot_path_test LIBRARIES tunesmith_api SOURCES api_hot_path_test.cpp)

# The examples, as a user without a GPU and without a cache would run them.
foreach(example quickstart c_api cross_entropy attention attention_mods)
  add_test(NAME example.${example} COMMAND tunesmith_example_${example})
  set_tests_properties(example.${example} PROPERTIES
    ENVIRONMENT "TUNESMITH_CACHE=;TUNESMITH_MODE=replay" TIMEOUT 120
    PASS_REGULAR_EXPRESSION "first row sums to (1\\.0000|0\\.9999)")
endforeach()
set_tests_properties(example.attention PROPERTIES
  PASS_REGULAR_EXPRESSION "the first query sees the first key alone: largest difference from its value 0\n")
set_tests_properties(example.attention_mods PROPERTIES
  PASS_REGULAR_EXPRESSION "as a text and as the option differ by less than 1e-5\n")
set_tests_properties(example.cross_entropy PROPERTIES
  PASS_REGULAR_EXPRESSION "loss 6\\.9[0-9]*, after 20 steps 0\\.[0-9]+")
