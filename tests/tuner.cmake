# The tuner on scripted devices and compilers.
tunesmith_test(tuner_test LIBRARIES tunesmith_tuner SOURCES
  tuner_build_test.cpp tuner_select_test.cpp tuner_statistics_test.cpp tuner_timing_test.cpp tuner_tune_test.cpp
  tuner_verify_test.cpp)
