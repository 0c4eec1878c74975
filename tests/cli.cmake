# The command line: its parts by themselves, and the built program by its contract.
tunesmith_test(cli_parts_test LIBRARIES tunesmith_cli_parts SOURCES
  cli_child_test.cpp cli_npy_test.cpp cli_parts_test.cpp cli_record_lines_test.cpp cli_spec_test.cpp)
tunesmith_test(cli_test LIBRARIES tunesmith_cli_parts SOURCES
  cli_attention_test.cpp cli_cache_test.cpp cli_cross_entropy_test.cpp cli_input_test.cpp cli_options_test.cpp
  cli_prewarm_test.cpp cli_process.cpp cli_run_test.cpp cli_shipped_test.cpp cli_source_test.cpp cli_usage_test.cpp)
tunesmith_test(cli_gpu_test LIBRARIES tunesmith_cli_parts LABELS gpu SOURCES cli_gpu_test.cpp cli_process.cpp)
foreach(test cli_test cli_gpu_test)
  add_dependencies(${test} tunesmith_cli tunesmith_shipped)
endforeach()
