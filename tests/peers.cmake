# What of bench/peers runs without PyTorch and a GPU.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  add_test(NAME peers COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/peers_test.py)
  set_tests_properties(peers PROPERTIES LABELS quality TIMEOUT 120)
endif()
