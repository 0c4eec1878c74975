# Checks of the sources themselves: what they say, how they are formatted, what clang-tidy finds.
tunesmith_test(source_rules_test SOURCES source_rules_test.cpp source_tree.cpp LABELS quality)

add_test(NAME clang_format COMMAND ${PROJECT_SOURCE_DIR}/scripts/format.sh --check)
set_tests_properties(clang_format PROPERTIES LABELS quality SKIP_RETURN_CODE 77 TIMEOUT 120)

# One test for each source of the library and the command line, so that CTest spreads them over the cores and names them.
file(GLOB_RECURSE tidy_sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
  ${PROJECT_SOURCE_DIR}/api/*.cpp ${PROJECT_SOURCE_DIR}/cache/*.cpp ${PROJECT_SOURCE_DIR}/jit/*.cpp
  ${PROJECT_SOURCE_DIR}/templates/*.cpp ${PROJECT_SOURCE_DIR}/tuner/*.cpp)
list(FILTER tidy_sources EXCLUDE REGEX "^api/examples/")
foreach(source ${tidy_sources})
  add_test(NAME clang_tidy/${source} COMMAND ${PROJECT_SOURCE_DIR}/scripts/tidy.sh ${PROJECT_BINARY_DIR} ${source})
  set_tests_properties(clang_tidy/${source} PROPERTIES LABELS quality SKIP_RETURN_CODE 77 TIMEOUT 300)
endforeach()
