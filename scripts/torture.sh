#!/usr/bin/env bash
# torture.sh [TIMES]: runs the tests with random faults that many times longer than `make test` does (default 85): 10 000
# damaged cache files, more than 1000 killed writers, a server behind a proxy that damages replies; 700 000 mutated row programs
# through the parser with address and undefined-behaviour sanitizers; for TIMES / 5 minutes, random problems of all operations
# on the host executor; and mutations of kernels, which random problems must find.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh

export TUNESMITH_TORTURE=${1:-85}
cmake --preset debug >/dev/null
cmake --build --preset debug --target cache_test
build/debug/tests/cache_test --gtest_filter='CacheDamage.Survives*:CacheConcurrency.*Killed*'
cmake --preset asan >/dev/null
cmake --build --preset asan --target row_program_language_test
# As the test preset sets them.
ASAN_OPTIONS=detect_stack_use_after_return=0 UBSAN_OPTIONS=print_stacktrace=1 \
  build/asan/tests/row_program_language_test --gtest_filter='RowProgramErrors.Mutated*'
cmake --build --preset debug --target random_problems
build/debug/tests/random_problems --cases tests/random/cases.txt
build/debug/tests/random_problems --check-only --minutes "$(((TUNESMITH_TORTURE + 16) / 17))"
build/debug/tests/random_problems --minutes "$(((TUNESMITH_TORTURE + 4) / 5))"
build/debug/tests/random_problems --mutations tests/random/mutations.txt --minutes 3
if cmake --build --preset debug --target help | grep -q '^fleet_test'; then
  cmake --build --preset debug --target fleet_test fleet_engine_test fleet_host_process
  build/debug/tests/fleet_engine_test --gtest_filter='*OneOfManyHosts*'
  tests/fleet/namespaces_test.sh "$(find build/debug -name fleet_host_process -type f)" 31 || (($? == 77))
  build/debug/tests/fleet_test --gtest_filter='Torture*:Faults*:*TenThousand*'
else
  echo "torture.sh: this build has no remote cache; its part was left out"
fi
