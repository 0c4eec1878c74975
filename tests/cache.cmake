tunesmith_test(cache_test LIBRARIES tunesmith_cache tunesmith_sqlite LABELS cache TIMEOUT 300 SOURCES
  cache_fixture.cpp cache_round_trip_test.cpp cache_lookup_test.cpp cache_maintenance_test.cpp cache_parts_test.cpp cache_prune_test.cpp
  cache_damage_test.cpp cache_refusal_test.cpp cache_unwritable_test.cpp cache_concurrency_test.cpp)
