# Installs to a temporary prefix and uses the result as a program outside the tree would.
add_test(NAME package COMMAND ${PROJECT_SOURCE_DIR}/tests/package_test.sh ${PROJECT_BINARY_DIR} ${CMAKE_CXX_COMPILER})
set_tests_properties(package PROPERTIES LABELS quality TIMEOUT 300)
