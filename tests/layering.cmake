tunesmith_test(layering_test SOURCES layering.cpp layering_test.cpp source_tree.cpp LABELS quality)
