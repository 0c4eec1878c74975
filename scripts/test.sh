#!/usr/bin/env bash
# test.sh [test|asan|tsan]: configures, builds and runs the tests of a workflow preset, then lists the tests that were skipped
# or failed. If the build succeeds, the last line is "N passed, N failed, N skipped".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh
source scripts/random_seed.sh

workflow=${1:-test}
case $workflow in
  test) results=build/debug/tests.xml ;;
  asan | tsan) results=build/$workflow/tests.xml ;;
  *)
    echo "test.sh: workflow is '$workflow'; allowed: test, asan, tsan" >&2
    exit 2
    ;;
esac

rm -f "$results" # never report the results of an earlier run
export CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-$(nproc)}
status=0
cmake --workflow --preset "$workflow" || status=$?
if [[ ! -s $results ]]; then
  echo "test.sh: the build failed, or the tests could not be started: no $results" >&2
  exit "$((status ? status : 1))"
fi

echo
awk -f scripts/test_summary.awk "$results" || status=1
exit "$status"
